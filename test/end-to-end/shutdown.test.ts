import { expect } from "vitest";
import { errorReply, readError } from "../support/error-reply.ts";
import { GatedCalls, LET_THROUGH } from "../support/gated-calls.ts";
import { send } from "../support/http-client.ts";
import { readWhere, waitForHanging } from "../support/fixture-server.ts";
import { LaneClient } from "../support/lane-client.ts";
import { readResponse } from "../support/json-rpc.ts";
import { initializeRequest, McpClient, toolCall } from "../support/mcp-client.ts";
import { groupEnd } from "../support/process-end.ts";
import { readReadiness } from "../support/status.ts";
import { isGroupAlive, Sidecar } from "../support/sidecar.ts";
import { proves } from "./proves.ts";

const LONG_MS = "600000";
const PING = { jsonrpc: "2.0", id: 7, method: "ping" };

async function beginStop(sidecar: Sidecar): Promise<void> {
  sidecar.process.kill("SIGTERM");
  await sidecar.waitForLog("stopping");
}

proves("requests in flight finish at the end", async () => {
  await using sidecar = await Sidecar.start({ flags: ["--drain-timeout-ms", LONG_MS, "--max-in-flight", "1"] });
  const client = await sidecar.client();
  await using calls = await GatedCalls.create(sidecar);
  const replies = [calls.post(client, "flying")];
  await calls.waitForReached(1);
  replies.push(calls.post(client, "held"));
  await calls.waitForWaiting(1);
  await beginStop(sidecar);
  const rejected = await client.post(PING);
  expect(readError(rejected)).toStrictEqual(errorReply(503, -32000, "SHUTTING_DOWN", { id: 7, data: { retryAfterSeconds: 1 } }));
  expect([rejected.headers["retry-after"], rejected.headers["connection"]]).toEqual(["1", "close"]);
  for (const { status, headers, body } of [await new McpClient(sidecar.url).post(initializeRequest()), await client.get()]) {
    const error = { data: { code: "SHUTTING_DOWN", sent: false } };
    expect([status, headers["retry-after"], JSON.parse(body)]).toMatchObject([503, "1", { error }]);
  }
  expect(await readReadiness(sidecar)).toMatchObject({ httpStatus: 503, state: "stopping" });
  await calls.letThrough("flying", "held");
  for (const reply of await Promise.all(replies)) expect(readResponse(reply).result).toEqual(LET_THROUGH);
  expect(await sidecar.ended).toBe(0);
  expect(isGroupAlive(sidecar.childPid)).toBe(false);
});

proves("requests are served during PRE_STOP_MS", async () => {
  await using sidecar = await Sidecar.start({ flags: ["--pre-stop-ms", LONG_MS] });
  const client = await sidecar.client();
  using stream = await client.openStream();
  await beginStop(sidecar);
  for (const path of ["readyz", "healthz"]) {
    const { status, body } = await send(`${sidecar.origin}/${path}`, { method: "GET" });
    expect([status, JSON.parse(body)]).toMatchObject([503, { status: "not-ready", state: "stopping" }]);
  }
  const reply = await client.post(PING);
  expect([reply.status, reply.headers["connection"]]).toEqual([200, "close"]);
  expect(await (await new McpClient(sidecar.url).open()).toolText("echo", { text: "new" })).toBe("new");
  await client.notify("notifications/x-write", { line: '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}' });
  expect(await stream.messages(1)).toMatchObject([{ method: "notifications/tools/list_changed" }]);
  // The disposal must not wait.
  sidecar.process.kill("SIGTERM");
  await sidecar.exited;
});

proves("unanswered requests do not delay the end", async () => {
  await using sidecar = await Sidecar.start({ flags: ["--drain-timeout-ms", "50"] });
  const [client, control] = [await sidecar.client(), await sidecar.client()];
  const call = client.post(toolCall("hang", {}, 7));
  await waitForHanging(control, 1);
  sidecar.process.kill("SIGTERM");
  expect(readError(await call)).toStrictEqual(errorReply(200, -32000, "SHUTTING_DOWN", { id: 7, data: { sent: true, retrySafe: false } }));
  expect(await sidecar.ended).toBe(0);
});

proves("a second signal ends the sidecar at once", async () => {
  await using sidecar = await Sidecar.start({ mode: "stubborn", flags: ["--drain-timeout-ms", LONG_MS] });
  const client = await LaneClient.connect(sidecar);
  const pids = [client.childPid, (await readWhere(await sidecar.client())).pid];
  const call = client.callTool("hang").catch(String);
  await waitForHanging(client, 1);
  await beginStop(sidecar);
  sidecar.process.kill("SIGINT");
  expect(await sidecar.exited).toEqual({ code: 130, signal: null });
  for (const pid of pids) await groupEnd(pid);
  await call;
});
