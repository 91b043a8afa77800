import { existsSync, readFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { readStatus } from "../../../test/support/status.ts";
import { failure } from "../src/tool.ts";
import { success, type ToolClient, ToolServer } from "./tool-server.ts";
import { WebServer } from "./web-server.ts";

const POLL = { interval: 5, timeout: 45_000 };
/** Half of the places for web requests, which one host may have. */
const OF_HOST = 24;

describe("clients that share a server", () => {
  let slow: WebServer;
  let quick: WebServer;
  beforeAll(async () => {
    [slow, quick] = await Promise.all([WebServer.start(), WebServer.start()]);
  });
  afterAll(() => Promise.all([slow[Symbol.asyncDispose](), quick[Symbol.asyncDispose]()]));

  /** Starts requests that are not answered. @returns what became of each, and what cancels them. */
  function startSlow(client: ToolClient, count: number): { readonly outcomes: Promise<string>[]; readonly cancel: () => void } {
    const controller = new AbortController();
    const call = (): Promise<string> =>
      client.call("http_request", { url: slow.url("/silent") }, controller.signal).then(
        ({ status }) => status,
        (error: Error) => (controller.signal.aborted ? "cancelled" : error.message),
      );
    slow.seen.length = 0;
    return { outcomes: Array.from({ length: count }, call), cancel: () => controller.abort() };
  }

  it("slow web requests of one client hold neither other tools nor other hosts", async () => {
    await using server = await ToolServer.start();
    await using one = await server.session();
    await using other = await server.session();
    const { outcomes, cancel } = startSlow(one, 60);
    await expect.poll(() => slow.seen.length, POLL).toBe(OF_HOST);
    expect(await other.call("get_current_time")).toMatchObject({ status: "success" });
    expect(await other.call("write_file", { path: "a.txt", content: "a" })).toMatchObject({ status: "success" });
    expect(await other.call("read_file", { path: "a.txt" })).toEqual(success("a"));
    expect(await other.call("http_request", { url: quick.url("/hello") })).toMatchObject({ result: { body: "hello" } });
    expect(slow.seen).toHaveLength(OF_HOST);
    cancel();
    expect(new Set(await Promise.all(outcomes))).toEqual(new Set(["cancelled"]));
    // Neither those that ran nor those that waited keep a place.
    expect(await other.call("http_request", { url: slow.url("/hello") })).toMatchObject({ result: { body: "hello" } });
  });

  it("with MAX_SESSION_REQUESTS, no client takes all places of a host", async () => {
    await using server = await ToolServer.start({}, undefined, ["--max-session-requests", "16"]);
    await using one = await server.session();
    await using other = await server.session();
    const { outcomes, cancel } = startSlow(one, 17);
    expect(await Promise.race(outcomes)).toMatch(/SESSION_OVERLOADED|429|too many/i);
    await expect.poll(() => slow.seen.length, POLL).toBe(16);
    expect(await other.call("http_request", { url: slow.url("/hello") })).toMatchObject({ result: { body: "hello" } });
    cancel();
    await Promise.all(outcomes);
  });

  it("with the command of the README, a flood of one client leaves requests to the others", async () => {
    const { scripts } = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8")) as { scripts: { start: string } };
    const flags = scripts.start.match(/--max-session-requests \d+/)?.[0].split(" ") ?? [];
    await using server = await ToolServer.start({}, undefined, flags);
    await using one = await server.session();
    await using other = await server.session();
    const { outcomes, cancel } = startSlow(one, 1100);
    await Promise.race(outcomes);
    await expect.poll(async () => (await readStatus(server.sidecar)).lanes.shared.requestsInFlight, POLL).toBe(512);
    expect(await other.call("get_current_time")).toMatchObject({ status: "success" });
    cancel();
    await Promise.all(outcomes);
  });

  it("calls of 50 clients wait for each other, and all are served", async () => {
    await using server = await ToolServer.start({ ONECLAW_MAX_THREADS: "1" });
    await using first = await server.session();
    await using clients = new AsyncDisposableStack();
    const sessions = await Promise.all(Array.from({ length: 50 }, () => server.session()));
    for (const each of sessions) clients.use(each);
    const controller = new AbortController();
    const held = first.call("hold_file", {}, controller.signal).catch(() => "cancelled");
    await expect.poll(() => existsSync(server.folder.file("held")), POLL).toBe(true);
    const calls = Promise.all(sessions.map((each) => each.call("get_current_time")));
    // With a limit below 51, some of them end while the thread is held.
    await expect.poll(async () => (await readStatus(server.sidecar)).lanes.shared.requestsInFlight, POLL).toBe(51);
    controller.abort();
    expect(new Set((await calls).map(({ status }) => status))).toEqual(new Set(["success"]));
    expect(await held).toBe("cancelled");
  });

  it("calls with long arguments that wait leave room for those with short ones", async () => {
    await using server = await ToolServer.start({ ONECLAW_MAX_THREADS: "1" });
    await using client = await server.session();
    const controller = new AbortController();
    const held = client.call("hold_file", {}, controller.signal).catch(() => "cancelled");
    await expect.poll(() => existsSync(server.folder.file("held")), POLL).toBe(true);
    const content = "x".repeat(4_000_000);
    // Together with a seventeenth, they would have more than 64 Mi characters.
    const long = Array.from({ length: 17 }, () => client.call("write_file", { path: "a.txt", content }));
    expect(await Promise.race(long)).toEqual(
      failure("execution_error", "The server is busy: calls with long arguments are under way. Try again later"),
    );
    const short = client.call("get_current_time");
    controller.abort();
    expect(await short).toMatchObject({ status: "success" });
    await Promise.all([held, ...long]);
  });

  it("a web request that does not stop leaves the others of its thread", async () => {
    await using server = await ToolServer.start();
    await using client = await server.session();
    const thread = async (): Promise<unknown> => {
      const outcome = await client.call("wait", { how: "get_thread" });
      return outcome.status === "success" ? outcome.result : outcome;
    };
    const controller = new AbortController();
    const cancelled = (name: string): Promise<unknown> => client.call(name, { how: "hang" }, controller.signal).catch(() => "cancelled");
    const first = await thread();
    const held = cancelled("wait_with_file");
    await expect.poll(() => existsSync(server.folder.file("held")), POLL).toBe(true);
    const second = await thread();
    expect(second).not.toBe(first);
    const busy = cancelled("wait");
    await expect.poll(thread, POLL).toBe(first);
    // Both threads have a call, so this is one more of the first. It does not stop at its limit.
    expect(await client.call("wait_briefly", { how: "hang" })).toMatchObject({ error_type: "timeout" });
    await expect.poll(async () => [first, second].includes(await thread()), POLL).toBe(false);
    expect(existsSync(server.folder.file("held"))).toBe(true);
    controller.abort();
    expect(await Promise.all([held, busy])).toEqual(["cancelled", "cancelled"]);
    await expect.poll(() => existsSync(server.folder.file("held")), POLL).toBe(false);
  });
});
