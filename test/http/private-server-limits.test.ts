import { setTimeout as delay } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { errorReply, readError } from "../support/error-reply.ts";
import type { HttpReply } from "../support/http-client.ts";
import { readWhere, waitForHanging } from "../support/in-flight.ts";
import { LaneClient } from "../support/lane-client.ts";
import { ASKABLE, initializeRequest, McpClient } from "../support/mcp-client.ts";
import { groupEnd } from "../support/process-end.ts";
import { HttpBench } from "../support/http-bench.ts";
import type { RunningSidecar } from "../support/running-sidecar.ts";
import { isGroupAlive } from "../support/sidecar.ts";

const IDLE_MS = 1000;
const IDLE = ["--session-idle-timeout-ms", String(IDLE_MS)];

function initialize(sidecar: RunningSidecar): Promise<HttpReply> {
  return new McpClient(sidecar.url).post(initializeRequest(ASKABLE));
}

/** Resolves when the log names this many servers, which may be after the response. @returns the number that it names. */
function waitForServers(sidecar: RunningSidecar, count: number): Promise<number> {
  const started = (): number => sidecar.logLines.filter(({ msg }) => msg === "mcp server started").length;
  return sidecar.waitFor(() => (started() >= count ? started() : undefined), `${count} servers`);
}

/** Waits until this many idle sessions have ended. */
async function waitForIdleEnds(sidecar: RunningSidecar, count: number): Promise<void> {
  const ends = (): number => sidecar.logLines.filter(({ msg, reason }) => msg === "session ended" && reason === "idle").length;
  await sidecar.waitFor(() => (ends() >= count ? count : undefined), `${count} idle sessions`);
}

describe.concurrent("--max-private-servers", () => {
  it("an initialize above the limit gets 503 and Retry-After; the shared server is unaffected", async () => {
    await using sidecar = await HttpBench.start({ flags: ["--max-private-servers", "2"] });
    const clients = [await LaneClient.connect(sidecar), await LaneClient.connect(sidecar)];
    const reply = await initialize(sidecar);
    const data = { sent: false, retrySafe: true, retryAfterSeconds: 30 };
    expect(readError(reply)).toStrictEqual(errorReply(503, -32000, "TOO_MANY_SERVERS", { id: 1, data }));
    expect(reply.headers["retry-after"]).toBe("30");
    expect(reply.headers).not.toHaveProperty("mcp-session-id");
    expect(await waitForServers(sidecar, 3)).toBe(3);
    expect(await (await sidecar.client()).toolText("echo", { text: "shared" })).toBe("shared");
    for (const client of clients) expect(await client.toolText("echo", { text: "mine" })).toBe("mine");
  });

  it("a place is free again once a session has ended", async () => {
    await using sidecar = await HttpBench.start({ flags: ["--max-private-servers", "1"] });
    for (let times = 0; times < 3; times++) {
      const client = await LaneClient.connect(sidecar);
      expect((await client.end()).status).toBe(204);
      await groupEnd(client.childPid);
      await sidecar.waitForLog("mcp server ended", (line) => line["childPid"] === client.childPid);
    }
  });

  it("a server counts until all its processes have ended, and the next client waits for that", async () => {
    await using sidecar = await HttpBench.start({ mode: "stubborn", flags: ["--max-private-servers", "1"] });
    const client = await LaneClient.connect(sidecar);
    await client.end();
    const waiting = initialize(sidecar);
    await groupEnd(client.childPid);
    expect((await waiting).status).toBe(200);
    await waitForServers(sidecar, 3);
    const events = sidecar.logLines.map(({ msg }) => msg).filter((msg) => msg === "mcp server started" || msg === "mcp server ended");
    expect(events).toEqual(["mcp server started", "mcp server started", "mcp server ended", "mcp server started"]);
  });

  // It starts 34 servers, which a busy machine needs a minute for.
  it("33 clients that never send DELETE all get a server", async () => {
    await using sidecar = await HttpBench.start();
    const first = await Promise.all(Array.from({ length: 32 }, () => initialize(sidecar)));
    expect(first.map(({ status }) => status)).toEqual(Array.from({ length: 32 }, () => 200));
    let last = await initialize(sidecar);
    while (last.status === 503) {
      await delay(Number(last.headers["retry-after"]) * 1000);
      last = await initialize(sidecar);
    }
    expect(last.status).toBe(200);
    const ends = sidecar.logLines.filter(({ msg }) => msg === "session ended").map(({ reason }) => reason);
    expect(ends).toEqual(["room for a new client"]);
    expect(await waitForServers(sidecar, 34)).toBe(34);
  });

  it("a place is free again after a failed initialize, and after many at once", async () => {
    await using sidecar = await HttpBench.start({ mode: "refuse-clients", flags: ["--max-private-servers", "2"] });
    const replies = await Promise.all(Array.from({ length: 10 }, () => initialize(sidecar)));
    // Clients that got a server received its error. Another client may get a place when the first server has failed.
    const relayed = replies.filter(({ status }) => status === 200).length;
    expect(relayed).toBeGreaterThanOrEqual(2);
    expect(replies.filter(({ status }) => status === 503)).toHaveLength(10 - relayed);
    expect(await waitForServers(sidecar, 1 + relayed)).toBe(1 + relayed);
    let { status } = await initialize(sidecar);
    while (status === 503) ({ status } = await initialize(sidecar));
    expect(status).toBe(200);
  });
});

describe("--session-idle-timeout-ms", () => {
  it.concurrent("an idle server ends, and the next request of its client starts another one", async () => {
    await using sidecar = await HttpBench.start({ flags: IDLE });
    const { childPid: sharedPid } = sidecar;
    const client = await LaneClient.connect(sidecar);
    await waitForIdleEnds(sidecar, 1);
    await groupEnd(client.childPid);
    const { pid } = await readWhere(client);
    expect([client.childPid, sharedPid]).not.toContain(pid);
    await waitForIdleEnds(sidecar, 2);
  });

  it.concurrent("after SESSION_MAX_AGE_MS, the requests of a client with an idle server get 404", async () => {
    await using sidecar = await HttpBench.start({ flags: [...IDLE, "--session-max-age-ms", "1"] });
    const client = await LaneClient.connect(sidecar);
    await waitForIdleEnds(sidecar, 1);
    await groupEnd(client.childPid);
    const reply = readError(await client.post({ jsonrpc: "2.0", id: 2, method: "ping" }));
    expect(reply).toStrictEqual(errorReply(404, -32001, "SESSION_NOT_FOUND", { id: 2 }));
  });

  it.concurrent("an idle session ends even if its client never sent initialized", async () => {
    await using sidecar = await HttpBench.start({ flags: IDLE });
    const { childPid: sharedPid } = sidecar;
    expect((await initialize(sidecar)).status).toBe(200);
    const childPid = await sidecar.waitForChild(sharedPid);
    await waitForIdleEnds(sidecar, 1);
    await groupEnd(childPid);
    expect(isGroupAlive(sharedPid)).toBe(true);
  });

  it("streams and requests in flight count as use; unanswered server requests do not", async () => {
    await using sidecar = await HttpBench.start({ flags: IDLE });
    const shared = await sidecar.client();
    const listening = await LaneClient.connect(sidecar);
    const stream = await listening.openStream();
    const running = await LaneClient.connect(sidecar);
    const hanging = running.callTool("hang");
    await waitForHanging(running, 1);
    const asking = await LaneClient.connect(sidecar);
    await asking.write({ jsonrpc: "2.0", id: "ask", method: "roots/list" });
    // Others come and go meanwhile.
    for (let count = 1; count <= 2; count++) {
      await initialize(sidecar);
      await waitForIdleEnds(sidecar, count + 1);
    }
    await groupEnd(asking.childPid);
    for (const { childPid } of [listening, running]) expect(isGroupAlive(childPid)).toBe(true);
    await running.toolText("release");
    expect((await hanging).status).toBe(200);
    stream[Symbol.dispose]();
    await waitForIdleEnds(sidecar, 5);
    await Promise.all([listening, running].map(({ childPid }) => groupEnd(childPid)));
    expect(await shared.toolText("echo", { text: "still here" })).toBe("still here");
  });

  it.concurrent.each(["call", "stream"])("the idle time is counted from the end of the last %s", async (what) => {
    await using sidecar = await HttpBench.start({ flags: IDLE });
    const client = await LaneClient.connect(sidecar);
    const use = what === "call" ? client.begin("slow_progress", { steps: 8, intervalMs: 100 }) : client.openStream();
    if (what === "stream") await client.toolText("slow_progress", { steps: 8, intervalMs: 100 });
    const open = await use;
    const endedAtMs = performance.now();
    open[Symbol.dispose]();
    await waitForIdleEnds(sidecar, 1);
    // Counted from the start, little of it would be left.
    expect(performance.now() - endedAtMs).toBeGreaterThan(IDLE_MS / 2);
  });

  it.concurrent("the end of an idle session is logged once, however long its server takes", async () => {
    await using sidecar = await HttpBench.start({ mode: "stubborn", flags: ["--session-idle-timeout-ms", "300"] });
    const { pid } = await readWhere(await LaneClient.connectUninitialized(sidecar));
    await waitForIdleEnds(sidecar, 1);
    await groupEnd(pid);
    expect(sidecar.logLines.filter(({ msg }) => msg === "session ended")).toHaveLength(1);
  });
});
