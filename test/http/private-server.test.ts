import { describe, expect, it } from "vitest";
import { readWhere, Gate, waitForHanging, NO_RESTART, QUICK_RESTART, crashProcess, readSeen, crash } from "../support/fixture-server.ts";
import { LaneClient } from "../support/lane-client.ts";
import { ASKABLE, initializeRequest, McpClient } from "../support/mcp-client.ts";
import { groupEnd, processEnd } from "../support/process-end.ts";
import { HttpBench } from "../support/http-bench.ts";
import type { RunningSidecar } from "../support/running-sidecar.ts";
import { RawConnection, postBytes } from "../support/raw-connection.ts";
import { isAlive, isGroupAlive, FIXTURE } from "../support/sidecar.ts";
import type { HttpReply } from "../support/http-client.ts";
import { rm, writeFile } from "node:fs/promises";
import { readReadiness, waitForGeneration } from "../support/status.ts";
import { signalServer } from "../support/in-process-server.ts";
import { TempDir } from "../support/temp-dir.ts";
import { disposeAfterAll } from "../support/dispose-after-all.ts";
import { progressTokenOf } from "../support/json-rpc.ts";

/** Returns a client with a session that another client's initialize has opened. */
function resume({ url }: RunningSidecar, sessionId: unknown): McpClient {
  return new McpClient(url, { sessionId: String(sessionId) });
}

async function readLines(client: McpClient): Promise<string[]> {
  return JSON.parse(await client.toolText("lines")) as string[];
}

const ALONE = ["--isolation", "session"];

describe("the initialize of a client that accepts server requests", () => {
  it("a client that declares sampling, elicitation or roots gets a private server, which equal sessions share", async () => {
    await using sidecar = await HttpBench.start();
    const pids = [sidecar.childPid];
    const declared = [{ sampling: {} }, { elicitation: {} }, { roots: {} }, { roots: {}, experimental: {} }];
    for (const capabilities of declared) pids.push((await LaneClient.connect(sidecar, capabilities)).childPid);
    expect(pids.map((pid) => pids.indexOf(pid))).toEqual([0, 1, 2, 3, 3]);
  });

  it("with ISOLATION=session, initialize reaches the server byte for byte, except for its id", async () => {
    await using sidecar = await HttpBench.start({ mode: "newline-only", flags: ALONE });
    const body = (id: string): string =>
      String.raw`{ "params":{"clientInfo":{"version":"1","name":"caf\u00e9","icons":[{"src":"a\/b","x":-0}]},"capabilities":{"x-vendor":{"big":9007199254740993,"10":1,"2":2},"sampling":{"tools":{},"y":1e400},"experimental":{"\ud800":null},"id":7},"protocolVersion":"2025-11-25","_meta":{"x":[1.50]}},"method":"initialize","id": ${id} ,"jsonrpc":"2.0"}`;
    const reply = await new McpClient(sidecar.url).post(body(`"my id"`));
    expect(reply.status).toBe(200);
    const [initialize, ...others] = await readLines(resume(sidecar, reply.headers["mcp-session-id"]));
    expect(initialize).toBe(body("0"));
    // The client's own notification may have reached another replica.
    expect(others.map((line) => (JSON.parse(line) as { method: string }).method)).toEqual(["notifications/initialized", "tools/call"]);
  });

  it("with ISOLATION=session, an initialize with line breaks is one line for the server, otherwise unchanged", async () => {
    await using sidecar = await HttpBench.start({ flags: ALONE });
    const text = JSON.stringify(initializeRequest(ASKABLE), undefined, 2).replace(`"id": 1`, `"id": "x"`);
    const reply = await new McpClient(sidecar.url).post(text.replaceAll("\n", "\r\n"));
    const [line] = await readLines(resume(sidecar, reply.headers["mcp-session-id"]));
    expect(line).toBe(text.replaceAll("\n", "  ").replace(`"id": "x"`, `"id": 0`));
  });

  it("the client gets the server's own result, byte for byte", async () => {
    const result = String.raw`{ "serverInfo":{"version":1.0,"name":"\u0066ixture"} ,"x":9007199254740993,"capabilities":{"tasks":{"list":{},"cancel":{}},"tools":{"listChanged":true},"10":{},"2":{}},"protocolVersion":"2025-06-18","instructions":"a\/b"}`;
    await using sidecar = await HttpBench.start({ env: { FIXTURE_INITIALIZE_RESULT: result } });
    const text = JSON.stringify(initializeRequest(ASKABLE)).replace(`"id":1,`, `"id":12345678901234567890,`);
    const reply = await new McpClient(sidecar.url).post(text);
    expect([reply.status, reply.headers["content-type"]]).toEqual([200, "application/json"]);
    expect(reply.body).toBe(`{"jsonrpc":"2.0","id":12345678901234567890,"result":${result}}`);
    expect(reply.headers["mcp-session-id"]).toMatch(/^[\x21-\x7e]{32,}$/);
  });

  it("the client gets the revision that the server chose, not the requested one", async () => {
    await using sidecar = await HttpBench.start({ mode: "old" });
    const privateReply = await new McpClient(sidecar.url).post(initializeRequest({ roots: {} }));
    expect(JSON.parse(privateReply.body)).toMatchObject({ result: { protocolVersion: "2024-11-05" } });
    // The sidecar itself supports all of them.
    const sharedReply = await new McpClient(sidecar.url).post(initializeRequest());
    expect(JSON.parse(sharedReply.body)).toMatchObject({ result: { protocolVersion: "2025-11-25" } });
  });

  it("with ISOLATION=session, the client's own notifications/initialized is forwarded unchanged", async () => {
    await using sidecar = await HttpBench.start({ flags: ALONE });
    const reply = await new McpClient(sidecar.url).post(initializeRequest(ASKABLE));
    const client = resume(sidecar, reply.headers["mcp-session-id"]);
    const initialized = `{ "params":{"_meta":{"x":1.0}},"method":"notifications/initialized" ,"jsonrpc":"2.0"}`;
    expect(await client.post(initialized)).toMatchObject({ status: 202, body: "" });
    expect((await readLines(client))[1]).toBe(initialized);
  });

  it("a server's error reaches the client with 200 and no session, and the process ends", async () => {
    await using sidecar = await HttpBench.start({ mode: "refuse-clients" });
    const sharedPid = sidecar.childPid;
    const reply = await new McpClient(sidecar.url).post(JSON.stringify(initializeRequest(ASKABLE)).replace(`"id":1,`, `"id":1.0,`));
    expect(reply.status).toBe(200);
    expect(reply.headers).not.toHaveProperty("mcp-session-id");
    expect(reply.body).toBe(`{"jsonrpc":"2.0","id":1.0,"error":{"code":-32603,"message":"no license"}}`);
    await groupEnd(await sidecar.waitForChild(sharedPid));
    // No state remains: the next initialize is forwarded again.
    expect((await new McpClient(sidecar.url).post(initializeRequest(ASKABLE))).body).toContain("no license");
    expect((await sidecar.client()).sessionId).not.toBe("");
    expect(sidecar.logLines.filter(({ msg }) => msg === "mcp server will be restarted")).toEqual([]);
  });

  it("the client gets 503, and the process ends, when the server never answers", async () => {
    await using sidecar = await HttpBench.start({ mode: "silent", untilReady: false, flags: ["--request-timeout-ms", "300"] });
    await sidecar.waitForLog("mcp server started");
    const sharedPid = sidecar.childPid;
    const reply = await new McpClient(sidecar.url).post(initializeRequest(ASKABLE));
    expect(reply.status).toBe(503);
    expect(JSON.parse(reply.body)).toMatchObject({ id: 1, error: { data: { code: "UPSTREAM_NOT_READY", sent: false } } });
    await groupEnd(await sidecar.waitForChild(sharedPid));
  });
});

describe("isolation", () => {
  it("auto lets clients with other capabilities use the shared server", async () => {
    await using sidecar = await HttpBench.start();
    const { childPid } = sidecar;
    for (const capabilities of [{}, { experimental: { x: {} } }, { tasks: {} }, { extensions: {} }]) {
      expect((await LaneClient.connect(sidecar, capabilities)).childPid).toBe(childPid);
    }
    expect(sidecar.logLines.filter(({ msg }) => msg === "mcp server started")).toHaveLength(1);
  });

  it("shared makes all clients use the shared server, and rejects the server's requests", async () => {
    await using sidecar = await HttpBench.start({ flags: ["--isolation", "shared"] });
    const client = await LaneClient.connect(sidecar);
    expect(client.childPid).toBe((await readWhere(await sidecar.client())).pid);
    expect(JSON.parse(await client.toolText("ask", { method: "roots/list" }))).toMatchObject({ error: { code: -32601 } });
    expect(sidecar.logLines.filter(({ msg }) => msg === "mcp server started")).toHaveLength(1);
  });
});

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

function initializeAskable(sidecar: RunningSidecar): Promise<HttpReply> {
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
    const replies = await Promise.all(Array.from({ length: 10 }, () => initializeAskable(sidecar)));
    // Clients that got a server received its error. Another client may get a place when the first server has failed.
    const relayed = replies.filter(({ status }) => status === 200).length;
    expect(relayed).toBeGreaterThanOrEqual(2);
    expect(replies.filter(({ status }) => status === 503)).toHaveLength(10 - relayed);
    expect(await waitForServers(sidecar, 1 + relayed)).toBe(1 + relayed);
    let { status } = await initializeAskable(sidecar);
    while (status === 503) ({ status } = await initializeAskable(sidecar));
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

describe("a private server that crashes", () => {
  it("with ISOLATION=session, initialized is not replayed before the client has sent it, but forwarded later", async () => {
    await using gate = await Gate.create();
    await gate.open();
    await using sidecar = await HttpBench.start({ mode: "gated", flags: ["--isolation", "session", ...QUICK_RESTART], env: gate.env });
    const reply = await LaneClient.connectUninitialized(sidecar);
    expect(await reply.request("ping")).toMatchObject({ status: 200, result: {} });
    const { childPid } = await sidecar.waitForLog("mcp server ready", ({ lane }) => lane === "private-1");
    await gate.close();
    signalServer(Number(childPid), "SIGKILL");
    await sidecar.waitForLog("mcp server started", (line) => line["generation"] === 2);
    // While the next one is starting.
    expect((await reply.notify("notifications/initialized")).status).toBe(202);
    await gate.open();
    expect(await readSeen(reply)).toEqual(["initialize", "notifications/initialized", "tools/call"]);
  });

  it("a command that has vanished is logged once, with the lane, and initialize fails", async () => {
    await using directory = await TempDir.create();
    const command = directory.file("server");
    await writeFile(command, `#!/bin/sh\nexec "${process.execPath}" "${FIXTURE}" normal\n`, { mode: 0o755 });
    await using sidecar = await HttpBench.start({ command: [command] });
    await rm(command);
    await expect(LaneClient.connect(sidecar)).rejects.toThrow("UPSTREAM_FAILED");
    expect(await sidecar.waitForLog("the command cannot be started")).toMatchObject({ lane: "private-1", code: "ENOENT" });
    expect(sidecar.logLines.filter(({ lane }) => lane === "private-1")).toHaveLength(1);
  });

  it("other servers and readiness are unaffected, and the exit is logged once", async () => {
    await using sidecar = await HttpBench.start({ flags: NO_RESTART });
    const [client, other] = [await LaneClient.connect(sidecar), await LaneClient.connect(sidecar, { roots: {} })];
    const shared = await sidecar.client();
    const others = [other.callTool("hang"), shared.callTool("hang")];
    await Promise.all([waitForHanging(other, 1), waitForHanging(shared, 1)]);
    await crashProcess(sidecar, client.childPid);
    await Promise.all([other.toolText("release"), shared.toolText("release")]);
    for (const { result } of await Promise.all(others)) expect(result?.content?.[0]?.text).toMatch(/^released/);
    expect((await readReadiness(sidecar)).httpStatus).toBe(200);
    expect(sidecar.logLines.filter(({ msg }) => msg === "mcp server exited")).toHaveLength(1);
  });

  it("no later generation gets responses to requests of a crashed one, ready or not", async () => {
    await using gate = await Gate.create();
    await gate.open();
    await using sidecar = await HttpBench.start({
      mode: "asks-and-exits",
      flags: [...QUICK_RESTART, "--log-level", "debug"],
      env: gate.env,
    });
    const client = await LaneClient.connect(sidecar);
    await gate.close();
    signalServer(client.childPid, "SIGKILL");
    await sidecar.waitForLog("mcp server exited", (line) => line["generation"] === 3);
    await gate.open();
    // The generation that becomes ready has used the same request id.
    await client.toolText("echo", { text: "ready" });
    using stream = await client.openStream();
    // The first generation sent one, those without a handshake did, and the last one did.
    const asked: unknown[] = [];
    const cancelled: unknown[] = [];
    for (let staying = 0; staying < 2;) {
      const message = await stream.next();
      if (message.method === "notifications/cancelled") cancelled.push(message.params?.["requestId"]);
      else {
        asked.push(message.id);
        if (message.params?.["isLast"] === true) staying++;
        await client.answer(message, { answered: asked.length });
      }
    }
    expect(asked.length).toBeGreaterThan(2);
    // The client is notified that those requests are cancelled.
    expect(cancelled).toEqual(asked.slice(0, -1));
    expect(await client.answers()).toEqual([`{"jsonrpc":"2.0","id":"same","result":{"answered":${asked.length}}}`]);
  });
});

describe("tasks of a private server", async () => {
  /** Makes a tool call that creates a task. @returns the call's id at its server, which is its progress token, too. */
  async function createTask(client: LaneClient, token: string): Promise<number> {
    const task = `{"taskId":"task of $ID","status":"working","createdAt":"2025-11-25T00:00:00Z","lastUpdatedAt":"2025-11-25T00:00:00Z","ttl":60000}`;
    const line = JSON.stringify(`{"jsonrpc":"2.0","id":$ID,"result":{"task":${task}}}`);
    const params = `{"_meta":{"progressToken":${token}},"task":{"ttl":60000},"name":"raw_line","arguments":{"line":${line}}}`;
    using call = await client.postForStream(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":${params}}`);
    const answer = (await call.answer()) as { result?: { task?: { taskId: string } } };
    return Number(answer.result?.task?.taskId.slice("task of ".length));
  }

  function progress(token: unknown, value: number): string {
    return `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":${value},"progressToken": ${String(token)} ,"x":1.0}}`;
  }

  const sidecar = disposeAfterAll(await HttpBench.start());

  it.each([
    ["a private", `"mine"`],
    ["a private", "0"],
    ["a shared", `"mine"`],
    ["a shared", "0"],
  ])("a task of %s server shows progress under token %s after its call's response", async (kind, token) => {
    const connect = (): Promise<LaneClient> => (kind === "a shared" ? LaneClient.connectShared(sidecar) : LaneClient.connect(sidecar));
    const [client, other] = [await connect(), await connect()];
    using stream = await client.openStream();
    using otherStream = await other.openStream();
    const wireId = await createTask(client, token);
    const otherId = await createTask(other, token);
    await client.write(progress(wireId, 1));
    await other.write(progress(otherId, 2));
    await client.write(progress(wireId, 3));
    expect([await stream.nextText(), await stream.nextText()]).toEqual([progress(token, 1), progress(token, 3)]);
    expect(await otherStream.nextText()).toBe(progress(token, 2));
    await Promise.all([client.end(), other.end()]);
    expect([await stream.rest(), await otherStream.rest()]).toEqual([[], []]);
  });

  it("a task shows no progress after its session or server has ended", async () => {
    await using own = await HttpBench.start({ flags: ["--restart-backoff-ms", "1", "--restart-max-ms", "20", "--log-level", "debug"] });
    const [ending, client] = [await LaneClient.connectShared(own), await LaneClient.connectShared(own)];
    using stream = await client.openStream();
    const endedId = await createTask(ending, "0");
    const wireId = await createTask(client, "0");
    await ending.end();
    const dropped = (count: number): Promise<unknown> => own.waitForLog("server notification dropped", (line) => line["count"] === count);
    await client.write(progress(endedId, 1));
    await dropped(1);
    await crash(own);
    await waitForGeneration(own, 2);
    await client.write(progress(wireId, 1));
    await dropped(2);
    await client.end();
    expect(await stream.rest()).toEqual([]);
  });

  it("a client's task shows progress after its creation, under the server's token", async () => {
    const client = await LaneClient.connect(sidecar);
    using stream = await client.openStream();
    await client.write(
      `{"jsonrpc":"2.0","id":"ask","method":"sampling/createMessage","params":{"task":{},"_meta":{"progressToken":"its own"}}}`,
    );
    const asked = await stream.next();
    await client.answer(asked, { task: { taskId: "c-1", status: "working" } });
    await client.post(progress(progressTokenOf(asked), 1));
    expect((await client.lines()).at(-2)).toBe(progress(`"its own"`, 1));
    await client.end();
  });
});
