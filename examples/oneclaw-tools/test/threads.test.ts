import { existsSync, readdirSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { isAlive } from "../../../test/support/sidecar.ts";
import { SdkClient } from "../../../test/support/sdk-client.ts";
import { failure, type Tool } from "../src/tool.ts";
import { Registry } from "../src/registry.ts";
import { SERVER_WITH_MORE_TOOLS, readResult, success, type ToolClient, ToolServer } from "./tool-server.ts";

describe("threads", () => {
  let server: ToolServer;
  let client: ToolClient;
  beforeAll(async () => {
    server = await ToolServer.start({ ONECLAW_MAX_THREADS: "2" });
    client = await server.session();
  });
  afterAll(async () => {
    await client[Symbol.asyncDispose]();
    await server[Symbol.asyncDispose]();
  });

  it.each([
    ["throw_later", "misbehave crashed: thrown later"],
    ["reject_later", "misbehave crashed: rejected later"],
    ["exit", "misbehave crashed: its thread exited with code 7"],
    ["exhaust_memory", "misbehave crashed: Worker terminated due to reaching memory limit: JS heap out of memory"],
    ["return_bigint", "misbehave crashed: Do not know how to serialize a BigInt"],
  ])("a tool that fails by %s gets an error, and the server goes on", async (how, message) => {
    const pid = server.sidecar.childPid;
    expect(await client.call("misbehave", { how })).toEqual(failure("execution_error", message));
    expect(await client.call("get_current_time")).toMatchObject({ status: "success" });
    expect(server.sidecar.childPid).toBe(pid);
  });

  it("a thread is used again, unless its tool has left timers", async () => {
    const ids = [];
    for (const how of ["get_thread", "get_thread", "leave_timer", "get_thread"]) {
      const outcome = await client.call("misbehave", { how });
      ids.push(outcome.status === "success" ? outcome.result : outcome);
    }
    expect(ids).toEqual([ids[0], ids[0], ids[0], expect.any(Number)]);
    expect(ids[3]).not.toBe(ids[0]);
  });

  it("an error after the result is the tool's own, and a function in a result is left out", async () => {
    const crash = failure("execution_error", "misbehave crashed: after the result");
    expect(await client.call("misbehave", { how: "throw_after_result" })).toEqual(crash);
    expect(await client.call("misbehave", { how: "return_function" })).toEqual(success({ kept: 1 }));
  });

  it("the output of a tool is dropped, and it does not see the environment", async () => {
    expect(await client.call("misbehave", { how: "print" })).toEqual(success([]));
    await client.call("get_current_time");
    expect(server.sidecar.transcript()).not.toContain("a secret");
  });

  it("the server answers while all threads are busy", async () => {
    const controller = new AbortController();
    const order: string[] = [];
    const busy = [1, 2].map((number) =>
      client.call("misbehave", { how: "spin" }, controller.signal).catch(() => order.push(`thread ${number}`)),
    );
    expect(await client.names()).toContain("get_current_time");
    await client.call("missing");
    order.push("answered");
    controller.abort();
    await Promise.all(busy);
    expect(order).toEqual(["answered", "thread 1", "thread 2"]);
    expect(await client.call("get_current_time")).toMatchObject({ status: "success" });
  });

  it("a cancelled call cleans up, and frees its thread", async () => {
    const held = server.folder.file("held");
    const controller = new AbortController();
    const call = client.call("hold_file", {}, controller.signal).catch(() => "cancelled");
    await expect.poll(() => existsSync(held)).toBe(true);
    controller.abort();
    expect(await call).toBe("cancelled");
    await expect.poll(() => existsSync(held)).toBe(false);
    expect(await client.call("get_current_time")).toMatchObject({ status: "success" });
  });

  it("a cancelled call in an endless loop frees its thread", async () => {
    const controller = new AbortController();
    const calls = [1, 2].map(() => client.call("misbehave", { how: "spin" }, controller.signal).catch(() => "cancelled"));
    // Both threads are taken before this call, which has to wait for one.
    const next = client.call("get_current_time");
    setImmediate(() => controller.abort());
    expect(await Promise.all(calls)).toEqual(["cancelled", "cancelled"]);
    expect(await next).toMatchObject({ status: "success" });
  });

  it("a call beyond the limit gets a clear error", async () => {
    const controller = new AbortController();
    await using direct = await SdkClient.direct([process.execPath, SERVER_WITH_MORE_TOOLS], { ONECLAW_FOLDER: server.folder.path });
    const call = async (how: string) => readResult(await direct.callTool({ name: "misbehave", arguments: { how } }, undefined, controller));
    const held = Array.from({ length: 1024 }, () => call("hang").catch(() => "cancelled"));
    expect(await call("throw")).toEqual(failure("execution_error", "The server is busy: 1024 calls are under way. Try again later"));
    controller.abort();
    await Promise.all(held);
  });

  it("the server exits when stdin ends, even while tools are busy, which clean up", async () => {
    const direct = await SdkClient.direct([process.execPath, SERVER_WITH_MORE_TOOLS], { ONECLAW_FOLDER: server.folder.path });
    const { pid } = direct.transport as unknown as { pid: number };
    expect(readResult(await direct.callTool({ name: "get_current_time", arguments: {} }))).toMatchObject({ status: "success" });
    const calls = [
      direct.callTool({ name: "misbehave", arguments: { how: "spin" } }).catch(() => "closed"),
      direct.callTool({ name: "hold_file", arguments: {} }).catch(() => "closed"),
    ];
    await expect.poll(() => existsSync(server.folder.file("held"))).toBe(true);
    await direct.close();
    expect(await Promise.all(calls)).toEqual(["closed", "closed"]);
    expect(isAlive(pid)).toBe(false);
    expect(readdirSync(server.folder.path)).toEqual([]);
  });
});

describe("the registry", () => {
  const tool: Tool = {
    name: "a_tool",
    description: "Do something",
    parameters: { type: "object" },
    permissions: [],
    timeoutMs: 1,
    execute: () => "",
  };

  it("each name is unique", () => {
    const registry = new Registry();
    registry.register(tool);
    expect(() => registry.register(tool)).toThrow("The tool name a_tool is already registered");
  });

  it.each(["readFile", "read-file", "_read", "read_", "read__file", "1read", "", "r".repeat(65)])("the name %j is rejected", (name) => {
    expect(() => new Registry().register({ ...tool, name })).toThrow("is not snake_case with at most 64 characters");
  });

  it("a tool without a time limit has the one of the document", () => {
    const registry = new Registry();
    const { timeoutMs: _timeoutMs, ...unlimited } = tool;
    registry.register(unlimited);
    expect(registry.all[0]?.timeoutMs).toBe(30_000);
  });

  it("a wrong schema, description or time limit is rejected", () => {
    const register = (change: object) => () => new Registry().register({ ...tool, ...change });
    expect(register({ parameters: { type: "object", properties: 1 } })).toThrow("schema is invalid");
    expect(register({ parameters: { type: "string" } })).toThrow("parameters of type object");
    expect(register({ description: "" })).toThrow("a_tool needs a description");
    expect(register({ timeoutMs: 0.5 })).toThrow("The time limit of a_tool is not a positive whole number");
  });
});
