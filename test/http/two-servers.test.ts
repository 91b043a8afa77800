import { writeFile } from "node:fs/promises";
import { setTimeout as delay } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { signalServer } from "../support/in-process-server.ts";
import { waitForHanging } from "../support/in-flight.ts";
import { ASKABLE, McpClient } from "../support/mcp-client.ts";
import { ServerPair } from "../support/server-pair.ts";
import { EXAMPLE, FIXTURE, isGroupAlive } from "../support/sidecar.ts";
import { TempDir } from "../support/temp-dir.ts";

const IDLE = { requestsInFlight: 0, waiting: 0, queuedBytes: 0 };

function startPair(): Promise<ServerPair> {
  return ServerPair.start([FIXTURE, "normal"], [EXAMPLE]);
}

async function toolNames(client: McpClient): Promise<string[]> {
  const { result } = await client.request("tools/list");
  const { tools } = result as { readonly tools: readonly { readonly name: string }[] };
  return tools.map(({ name }) => name);
}

describe("two servers of one process", () => {
  it("each server has its own tools", async () => {
    await using pair = await startPair();
    const [first, second] = [await pair.first.client(), await pair.second.client()];
    expect(await toolNames(second)).toEqual(["echo", "add"]);
    expect(await pair.second.server.toolNames(10_000)).toEqual(["echo", "add"]);
    expect(await toolNames(first)).toEqual(await pair.first.server.toolNames(10_000));
    expect(await toolNames(first)).not.toContain("add");
  });

  it("a session of one server is unknown to the other", async () => {
    await using pair = await startPair();
    const { sessionId } = await pair.first.client();
    const stranger = new McpClient(pair.second.url, { sessionId });
    const reply = await stranger.request("tools/list");
    expect([reply.status, reply.error?.data]).toMatchObject([404, { code: "SESSION_NOT_FOUND" }]);
    expect([pair.first, pair.second].map(({ server }) => server.status().sessions)).toEqual([1, 0]);
  });

  it("requests, streams and private servers of one server count only there", async () => {
    await using pair = await startPair();
    const untouched = pair.second.counts;
    const client = await pair.first.client({ capabilities: ASKABLE });
    const stream = await client.openStream();
    const hanging = client.callTool("hang", {}, "h");
    await waitForHanging(client, 1);
    expect(pair.first.server.status()).toMatchObject({
      lanes: { shared: IDLE, private: { servers: 1, requestsInFlight: 1 } },
      sessions: 1,
      openStreams: 1,
    });
    const { lanes, sessions, openStreams } = pair.second.server.status();
    expect({ lanes, sessions, openStreams }).toEqual({
      lanes: { shared: { ...IDLE, suspended: 0 }, private: { servers: 0, ...IDLE }, modern: { servers: 0, ...IDLE }, asking: {} },
      sessions: 0,
      openStreams: 0,
    });
    expect(pair.second.counts).toEqual(untouched);
    await client.toolText("release");
    await hanging;
    stream.close();
  });

  it("a crash of one server leaves the other, its calls and its sessions alone", async () => {
    await using pair = await startPair();
    const witness = await pair.first.client();
    const hanging = witness.callTool("hang");
    await waitForHanging(witness, 1);
    const victim = await pair.second.client();
    const [pid = 0] = pair.second.childPids;
    const untouched = pair.first.counts;
    signalServer(pid, "SIGKILL");
    await waitUntil(() => pair.second.log.messages.includes("mcp server exited"));
    expect(await victim.toolText("echo", { text: "again" })).toBe("again");
    expect(pair.second.server.status()).toMatchObject({ upstream: { generation: 2, restarts: 1 } });
    expect(pair.second.counts).toMatchObject({ exits: { signal: 1 } });
    expect(pair.first.server.status().upstream).toMatchObject({ state: "ready", generation: 1, lastExit: undefined });
    expect([pair.first.counts, pair.first.log.messages.includes("mcp server exited")]).toEqual([untouched, false]);
    await witness.toolText("release");
    expect(JSON.stringify((await hanging).result)).toContain("released");
  });

  it("a drain of one server rejects its new requests, and the other serves", async () => {
    await using pair = await startPair();
    const [first, second] = [await pair.first.client(), await pair.second.client()];
    await pair.first.server.drain();
    expect((await first.request("tools/list")).error?.data).toMatchObject({ code: "SHUTTING_DOWN" });
    await pair.first.server.stop();
    expect([pair.first, pair.second].map(({ server }) => server.status().upstream.state)).toEqual(["stopping", "ready"]);
    expect(await second.toolText("echo", { text: "still here" })).toBe("still here");
  });

  it("a drain of both servers waits for the calls of each, and leaves no process", async () => {
    await using dir = await TempDir.create();
    await using pair = await ServerPair.start([FIXTURE, "normal"], [FIXTURE, "normal"]);
    const servers = [pair.first, pair.second];
    const paths = ["first", "second"].map((name) => dir.file(name));
    const clients = await Promise.all(servers.map((each) => each.client({ capabilities: ASKABLE })));
    const calls = clients.map((client, index) => client.toolText("wait_for_file", { path: paths[index] }));
    await waitUntil(() => servers.every(({ server }) => server.status().lanes.private.requestsInFlight === 1));
    const drained: number[] = [];
    const drains = servers.map(({ server }, index) => server.drain().then(() => drained.push(index)));
    await writeFile(paths[1] ?? "", "");
    await drains[1];
    expect(drained).toEqual([1]);
    await writeFile(paths[0] ?? "", "");
    await Promise.all(drains);
    expect(await Promise.all(calls)).toEqual(["the file is there", "the file is there"]);
    await Promise.all(servers.map(({ server }) => server.stop()));
    expect(servers.flatMap(({ childPids }) => childPids.map(isGroupAlive))).toEqual([false, false, false, false]);
  });
});

async function waitUntil(condition: () => boolean): Promise<void> {
  while (!condition()) await delay(5);
}
