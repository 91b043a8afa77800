import { describe, expect, it } from "vitest";
import { Gate, QUICK_RESTART, crash, crashServerOf, offer } from "../support/fixture-server.ts";
import { errorData } from "../support/error-reply.ts";
import { LANE_CLIENTS, LaneClient } from "../support/lane-client.ts";
import { HttpBench } from "../support/http-bench.ts";
import type { RunningSidecar } from "../support/running-sidecar.ts";
import { isAlive } from "../support/sidecar.ts";

const ALL = { tools: { listChanged: true }, prompts: { listChanged: true }, resources: { subscribe: true } };

/** Starts a sidecar whose servers declare the first capabilities until the gate is open, and the second from then on. */
function start(gate: Gate, before: string, after: string): Promise<RunningSidecar> {
  const env = { ...gate.env, FIXTURE_INITIALIZE_RESULT: before, FIXTURE_NEXT_INITIALIZE_RESULT: after };
  return HttpBench.start({ env, flags: QUICK_RESTART });
}

describe.each(LANE_CLIENTS)("a session with a restarted $lane server", ({ connect }) => {
  it("a session survives new capabilities, and its client is notified of changed lists", async () => {
    await using gate = await Gate.create();
    await using sidecar = await start(
      gate,
      offer({ tools: {} }, { instructions: "old" }),
      offer(ALL, { instructions: "new", serverInfo: { name: "other", version: "2" } }),
    );
    const client = await connect(sidecar);
    using stream = await client.openStream();
    await gate.open();
    await crashServerOf(sidecar, client);
    expect(await client.toolText("echo", { text: "still there" })).toBe("still there");
    await client.end();
    expect((await stream.rest()).map(({ method }) => method)).toEqual([
      "notifications/tools/list_changed",
      "notifications/prompts/list_changed",
    ]);
  });

  it("a session with fewer capabilities ends: streams close, requests get 404, new sessions open", async () => {
    await using gate = await Gate.create();
    await using sidecar = await start(gate, offer(ALL), offer({ ...ALL, prompts: {} }));
    const client = await connect(sidecar);
    using stream = await client.openStream();
    await gate.open();
    await crashServerOf(sidecar, client);
    // Sent while the server is down, or just after: it finds no session in either case.
    const waiting = await client.request("tools/list");
    expect([waiting.status, waiting.error?.data?.["code"]]).toEqual([404, "SESSION_NOT_FOUND"]);
    expect(await stream.rest()).toEqual([]);
    const later = await client.request("tools/list");
    expect([later.status, later.error?.code, later.error?.data]).toEqual([404, -32001, errorData("SESSION_NOT_FOUND")]);
    const reason = "the mcp server no longer offers prompts.listChanged";
    await sidecar.waitForLog("sessions ended");
    expect(sidecar.logLines.filter(({ msg }) => msg === "sessions ended")).toMatchObject([{ level: "warn", count: 1, reason }]);
    const next = await connect(sidecar);
    expect(await next.toolText("echo", { text: "hello" })).toBe("hello");
  });
});

describe("a session with a shared server", () => {
  it("every session ends if the next server has fewer capabilities than the former, whatever the first had", async () => {
    await using gate = await Gate.create();
    await gate.open();
    await using sidecar = await start(gate, offer(ALL), offer({ tools: {} }));
    const modest = await LaneClient.connectShared(sidecar);
    await gate.close();
    await crash(sidecar);
    const demanding = await LaneClient.connectShared(sidecar);
    expect((await demanding.request("tools/list")).status).toBe(200);
    await gate.open();
    await crash(sidecar);
    expect((await demanding.request("tools/list")).status).toBe(404);
    expect((await modest.request("tools/list")).status).toBe(404);
  });
});

describe("a session with a private server", () => {
  it("a session ends when the next server declares another revision", async () => {
    await using gate = await Gate.create();
    await using sidecar = await start(gate, offer(ALL), offer(ALL, { protocolVersion: "2025-06-18" }));
    const client = await LaneClient.connect(sidecar);
    await gate.open();
    await crashServerOf(sidecar, client);
    const { childPid } = await sidecar.waitForLog("mcp server ended", (line) => line["lane"] === "private-1");
    expect(isAlive(Number(childPid))).toBe(false);
    expect((await client.request("tools/list")).status).toBe(404);
  });

  it("the next server gets nothing that the former one rejected, and nothing of other clients", async () => {
    await using sidecar = await HttpBench.start({ flags: QUICK_RESTART });
    const [client, other] = [await LaneClient.connect(sidecar), await LaneClient.connect(sidecar, { roots: {} })];
    await other.request("logging/setLevel", { level: "debug" });
    await client.toolText("refuse", { method: "resources/subscribe" });
    await client.toolText("refuse", { method: "logging/setLevel" });
    expect((await client.request("resources/subscribe", { uri: "x://1" })).error?.code).toBe(-32602);
    expect((await client.request("logging/setLevel", { level: "info" })).error?.code).toBe(-32602);
    await crashServerOf(sidecar, client);
    const told = (await client.lines()).map((line) => (JSON.parse(line) as { method: string }).method);
    expect(told.filter((method) => method !== "tools/call")).toEqual(["initialize", "notifications/initialized"]);
  });
});
