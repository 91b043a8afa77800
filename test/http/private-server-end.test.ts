import { describe, expect, it } from "vitest";
import { Gate, readWhere, waitForHanging } from "../support/fixture-server.ts";
import { LaneClient } from "../support/lane-client.ts";
import { ASKABLE, McpClient, initializeRequest } from "../support/mcp-client.ts";
import { RawConnection, postBytes } from "../support/raw-connection.ts";
import { groupEnd, processEnd } from "../support/process-end.ts";
import { HttpBench } from "../support/http-bench.ts";
import { isAlive, isGroupAlive } from "../support/sidecar.ts";
import type { HttpReply } from "../support/http-client.ts";
import type { RunningSidecar } from "../support/running-sidecar.ts";

const SHORT_DRAIN = ["--drain-timeout-ms", "20"];
const MODES = ["normal", "stubborn", "grandchild", "grandchild-with-pipes", "grandchild-stubborn"];

describe.concurrent("a private server", () => {
  it.each(MODES)("the DELETE of its last session ends a server with all processes: %s", async (mode) => {
    await using sidecar = await HttpBench.start({ mode });
    const [client, sharer] = [await LaneClient.connect(sidecar), await LaneClient.connect(sidecar)];
    const other = await LaneClient.connect(sidecar, { roots: {} });
    expect([sharer.childPid, (await sharer.end()).status]).toEqual([client.childPid, 204]);
    const { grandchildPid = client.childPid } = await readWhere(client);
    expect(isAlive(grandchildPid)).toBe(true);
    const hanging = client.callTool("hang", {}, "mine");
    await waitForHanging(client, 1);
    using stream = await client.openStream();
    expect((await client.end()).status).toBe(204);
    // All open requests are answered at once, however long the processes take to end.
    expect(await hanging).toMatchObject({ id: "mine", error: { data: { code: "REQUEST_CANCELLED" } } });
    expect(await stream.rest()).toEqual([]);
    expect((await client.callTool("echo")).status).toBe(404);
    await groupEnd(client.childPid);
    await processEnd(grandchildPid);
    expect(await other.toolText("echo", { text: "on" })).toBe("on");
  });

  it("a server ends, and frees its place, when its client disconnects during initialize", async () => {
    await using gate = await Gate.create();
    await gate.open();
    await using sidecar = await HttpBench.start({ mode: "gated", env: gate.env, flags: ["--max-private-servers", "1"] });
    await gate.close();
    const { childPid: sharedPid } = sidecar;
    using connection = await RawConnection.open(sidecar.origin);
    await connection.write(postBytes(initializeRequest(ASKABLE)));
    const childPid = await sidecar.waitForChild(sharedPid);
    connection[Symbol.dispose]();
    await groupEnd(childPid);
    await sidecar.waitForLog("mcp server ended", (line) => line["childPid"] === childPid);
    await gate.open();
    expect((await new McpClient(sidecar.url).post(initializeRequest(ASKABLE))).status).toBe(200);
  });

  it("a server ends when its client disconnects from an initialize held for a restart", async () => {
    const flags = ["--restart-backoff-ms", "1", "--log-level", "debug"];
    await using sidecar = await HttpBench.start({ mode: "exit-at-initialize", untilReady: false, flags });
    await sidecar.waitForLog("mcp server exited");
    using connection = await RawConnection.open(sidecar.origin);
    await connection.write(postBytes(initializeRequest(ASKABLE)));
    await sidecar.waitForLog("mcp server exited", (line) => line["lane"] === "private-1" && line["generation"] === 2);
    connection[Symbol.dispose]();
    expect(await sidecar.stop()).toBe(0);
  });

  it("a server ends when its only session is evicted for one that does not share it", async () => {
    await using sidecar = await HttpBench.start({ flags: ["--max-sessions", "2"] });
    const [first, second] = [await LaneClient.connect(sidecar), await LaneClient.connect(sidecar, { roots: {} })];
    await first.request("ping");
    const shared = await sidecar.client();
    await groupEnd(second.childPid);
    const third = await LaneClient.connect(sidecar, { sampling: {} });
    await groupEnd(first.childPid);
    expect((await shared.request("ping")).status).toBe(200);
    expect((await third.request("ping")).status).toBe(200);
  });

  it("SIGTERM to the sidecar ends a server that is starting", async () => {
    await using gate = await Gate.create();
    await gate.open();
    await using sidecar = await HttpBench.start({ mode: "gated", env: gate.env, flags: SHORT_DRAIN });
    await gate.close();
    const sharedPid = sidecar.childPid;
    const waiting = new McpClient(sidecar.url).post(initializeRequest(ASKABLE));
    const childPid = await sidecar.waitForChild(sharedPid);
    expect(await sidecar.stop()).toBe(0);
    expect(isGroupAlive(childPid)).toBe(false);
    expect(JSON.parse((await waiting).body)).toMatchObject({ error: { data: { code: "SHUTTING_DOWN", sent: false } } });
  });
});

const IDLE = ["--session-idle-timeout-ms", "1000"];

function initialize(sidecar: RunningSidecar): Promise<HttpReply> {
  return new McpClient(sidecar.url).post(initializeRequest(ASKABLE));
}

function waitForServers(sidecar: RunningSidecar, count: number): Promise<number> {
  const started = (): number => sidecar.logLines.filter(({ msg }) => msg === "mcp server started").length;
  return sidecar.waitFor(() => (started() >= count ? started() : undefined), `${count} servers`);
}

async function waitForIdleEnds(sidecar: RunningSidecar, count: number): Promise<void> {
  const ends = (): number => sidecar.logLines.filter(({ msg, reason }) => msg === "session ended" && reason === "idle").length;
  await sidecar.waitFor(() => (ends() >= count ? count : undefined), `${count} idle sessions`);
}

describe.concurrent("--max-private-servers", () => {
  it("a place is free again after a failed initialize, and after many at once", async () => {
    const flags = ["--isolation", "session", "--max-private-servers", "2"];
    await using sidecar = await HttpBench.start({ mode: "refuse-clients", flags });
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

  it.concurrent("the end of an idle session is logged once, however long its server takes", async () => {
    await using sidecar = await HttpBench.start({ mode: "stubborn", flags: ["--session-idle-timeout-ms", "1500"] });
    const { pid } = await readWhere(await LaneClient.connectUninitialized(sidecar));
    await waitForIdleEnds(sidecar, 1);
    await groupEnd(pid);
    expect(sidecar.logLines.filter(({ msg }) => msg === "session ended")).toHaveLength(1);
  });
});
