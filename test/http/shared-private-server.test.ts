import { describe, expect, it } from "vitest";
import { crashServerOf, readWhere, waitForHanging } from "../support/fixture-server.ts";
import { HttpBench } from "../support/http-bench.ts";
import { LaneClient } from "../support/lane-client.ts";
import { ASKABLE, McpClient } from "../support/mcp-client.ts";
import { groupEnd } from "../support/process-end.ts";
import type { RunningSidecar } from "../support/running-sidecar.ts";
import { isAlive } from "../support/sidecar.ts";
import { readStatus } from "../support/status.ts";
import { TOKENS } from "../support/token-clients.ts";

const ROOTS = { jsonrpc: "2.0", id: "q", method: "roots/list" };

async function connectShared(sidecar: RunningSidecar, count: number): Promise<LaneClient[]> {
  const clients: LaneClient[] = [];
  while (clients.length < count) clients.push(await LaneClient.connect(sidecar));
  expect(new Set(clients.map(({ childPid }) => childPid)).size).toBe(1);
  return clients;
}

describe.concurrent("sessions that share a private server", () => {
  it("two hundred sessions of one client use one process, whether or not they end", async () => {
    await using sidecar = await HttpBench.start({ flags: ["--max-private-servers", "1"] });
    const clients = await Promise.all(Array.from({ length: 200 }, () => LaneClient.connect(sidecar)));
    expect(new Set(clients.map(({ childPid }) => childPid)).size).toBe(1);
    expect(await readStatus(sidecar)).toMatchObject({ asksSince: null, sessions: 200, lanes: { private: { servers: 1 } } });
  });

  it("another client, other capabilities and another revision get a process of their own", async () => {
    await using sidecar = await HttpBench.start({ hasTokens: true });
    const connect = async (token: string, capabilities: object = ASKABLE, protocolVersion = "2025-11-25"): Promise<number> => {
      const client = await new McpClient(sidecar.url, { token, capabilities, protocolVersion }).open();
      return (await readWhere(client)).pid;
    };
    const [one, other] = TOKENS;
    const pids = [await connect(one), await connect(other), await connect(one, { roots: {} }), await connect(one, ASKABLE, "2025-06-18")];
    expect(new Set(pids).size).toBe(4);
    expect(await connect(one, { ...ASKABLE, experimental: { x: {} } })).toBe(pids[0]);
  });

  it("the server gets the name of the sidecar, the revision of the client, and what it may ask", async () => {
    await using sidecar = await HttpBench.start({});
    const client = await LaneClient.connect(sidecar, { roots: { listChanged: true }, experimental: { x: {} } }, "2025-06-18");
    const [params] = await client.received("initialize");
    expect(params).toEqual({
      protocolVersion: "2025-06-18",
      capabilities: { roots: { listChanged: true } },
      clientInfo: { name: "claw-mcp-stdio", version: expect.any(String) as string },
    });
    expect(await client.received("notifications/initialized")).toHaveLength(1);
  });

  it("a shared server hears of no changed roots after a restart", async () => {
    await using sidecar = await HttpBench.start({});
    const first = await LaneClient.connect(sidecar);
    await first.notify("notifications/roots/list_changed");
    const second = await LaneClient.connect(sidecar);
    await crashServerOf(sidecar, first);
    expect(await second.received("notifications/roots/list_changed")).toEqual([]);
  });

  it("the process ends with its last session", async () => {
    await using sidecar = await HttpBench.start({});
    const [first, second] = await connectShared(sidecar, 2);
    await first?.end();
    expect(await second?.toolText("echo", { text: "on" })).toBe("on");
    await second?.end();
    await groupEnd(second?.childPid ?? 0);
  });

  it("a question in the first second goes to the first session, and another one gets a server of its own", async () => {
    await using sidecar = await HttpBench.start({});
    const first = await LaneClient.connect(sidecar);
    const second = await LaneClient.connectUninitialized(sidecar);
    const where = readWhere(second);
    using stream = await first.openStream();
    await first.write(ROOTS);
    const asked = await stream.next();
    expect(asked).toMatchObject({ method: "roots/list" });
    await first.answer(asked, { roots: [] });
    expect(await first.answers()).toEqual([JSON.stringify({ jsonrpc: "2.0", id: "q", result: { roots: [] } })]);
    expect((await where).pid).not.toBe(first.childPid);
    expect(isAlive(first.childPid)).toBe(true);
    expect(await sidecar.waitForLog("mcp server asks its clients")).toMatchObject({ lane: "private-1", method: "roots/list" });
    expect(Date.parse((await readStatus(sidecar)).asksSince ?? "")).toBeLessThanOrEqual(Date.now());
    // The command asks, so a later session has its own process from the start, and is known to the server by its own name.
    const third = await LaneClient.connect(sidecar);
    expect(await third.received("initialize")).toMatchObject([{ clientInfo: { name: "raw" } }]);
  });

  it("a question before the first response to initialize goes to the session that has started the server, and it has it alone", async () => {
    await using sidecar = await HttpBench.start({ mode: "asks-at-initialize/300" });
    const clients = await Promise.all([1, 2, 3].map(() => LaneClient.connectUninitialized(sidecar)));
    const pids = await Promise.all(clients.map(async (client) => (await readWhere(client)).pid));
    expect(new Set(pids).size).toBe(3);
    const asked = await Promise.all(clients.map(async (client) => (await client.openStream()).next()));
    expect(asked.map(({ params }) => params?.["nonce"])).toEqual(pids.map((pid) => `early-${pid}`));
  });

  it("a question at a shared process is for nobody: its calls finish, and its sessions go on at servers of their own", async () => {
    await using sidecar = await HttpBench.start({});
    const [first, second] = await connectShared(sidecar, 2);
    if (first === undefined || second === undefined) throw new Error("no clients");
    const { childPid } = first;
    using ofFirst = await first.openStream();
    using ofSecond = await second.openStream();
    const hanging = first.callTool("hang", {}, "mine");
    const [wireId] = await waitForHanging(first, 1);
    await second.write(ROOTS);
    await sidecar.waitForLog("sessions moved: the mcp server they shared has asked");
    expect((await readStatus(sidecar)).counters.dropped).toMatchObject({ questions: 1 });
    // The session without a call moves at once, the other one when its call has ended.
    const moved = await readWhere(second);
    expect(moved.pid).not.toBe(childPid);
    const waiting = readWhere(first);
    expect(await ofSecond.rest()).toEqual([]);
    await first.write({ jsonrpc: "2.0", id: wireId, result: { content: [] } });
    expect(await hanging).toMatchObject({ id: "mine" });
    expect((await waiting).pid).not.toBe(childPid);
    expect(await ofFirst.rest()).toEqual([]);
    await groupEnd(childPid);
    // Each of them now answers questions of its own server.
    using stream = await second.openStream();
    await second.write(ROOTS);
    const asked = await stream.next();
    expect((await second.answer(asked, { roots: [] })).status).toBe(202);
    expect((await readStatus(sidecar)).lanes.private.servers).toBe(2);
  });
});
