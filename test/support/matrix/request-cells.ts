import type { JsonRpcMessage } from "../json-rpc.ts";
import { progressTokenOf } from "../json-rpc.ts";
import { readStatus } from "../status.ts";
import { type Call, MatrixClient } from "./matrix-client.ts";
import { CLIENT_REASON, type Run, WORK } from "./run.ts";
import { resultOf, type ScriptedServer } from "./scripted-server.ts";

/** The codes of a server's errors: one that every request has, and those that another dialect knows in another form. */
const ERRORS: Readonly<Record<string, readonly [code: number, data?: object]>> = {
  "resources/read": [-32_002, { uri: "test://one" }],
  "custom/unknown": [-32_601],
};

/** Sends a request, and ends it in the way of the cell while it is at the server. */
export async function runRequest(
  run: Run,
  method: string,
  params: Readonly<Record<string, unknown>>,
  progressToken?: string,
): Promise<void> {
  const { cell, servers, client, changes } = run;
  const call = client.call(method, params, progressToken === undefined ? {} : { meta: { progressToken } });
  const find = (): { process: number; message: JsonRpcMessage } | undefined =>
    servers.received.find(({ message }) => message.method === method && message.params?.["cursor"] === params["cursor"]);
  await changes.until(() => find() ?? (call.isDone ? true : undefined), "the request or its response");
  const received = find();
  if (received === undefined) {
    if (KINDS_WITHOUT_SERVER.has(method)) return;
    throw new Error("the request did not reach the server");
  }
  const server = servers.process(received.process);
  if (progressToken !== undefined) {
    server.send({ method: "notifications/progress", params: { progressToken: progressTokenOf(received.message), progress: 1 } });
    await changes.until(() => call.messages.find((message) => message.method === "notifications/progress"), "progress");
  }
  if (cell.ending === "error") {
    const [code, data] = ERRORS[method] ?? [-32_602];
    server.fail(received.message, code, data);
    await client.done(call);
  } else await end(run, call, server, received.message);
}

/** What the sidecar may answer itself. */
const KINDS_WITHOUT_SERVER = new Set(["ping", "custom/unknown"]);

async function end(run: Run, call: Call, server: ScriptedServer, message: JsonRpcMessage): Promise<void> {
  const { cell, bench, client, servers } = run;
  const respond = (): void => server.respond(message, resultOf(call.method));
  switch (cell.ending) {
    case "result":
      respond();
      await client.done(call);
      break;
    case "cancel":
      await cancel(run, call);
      respond();
      if (cell.client === "2026") await client.done(call);
      await client.marker();
      break;
    case "disconnect":
      await disconnect(run, call);
      respond();
      await flush(run);
      await resume(run, call);
      break;
    case "timeout":
      await client.done(call);
      await client.marker();
      break;
    case "crash":
      servers.answersAll = true;
      server.crash();
      await client.done(call);
      await client.marker();
      break;
    case "drain":
      bench.kill();
      await client.done(call);
      await bench.ended;
      break;
    case "answered drain":
      bench.kill();
      await client.done(client.call("tools/list", { cursor: "late" }));
      respond();
      await client.done(call);
      await bench.ended;
      break;
    case "error":
  }
}

/** Calls a tool while the server is starting again, and ends the call before it is sent. */
export async function runHeld({ cell, bench, servers, client }: Run): Promise<void> {
  await servers.crashAndHold();
  const call = client.call("tools/call", WORK);
  await untilHeld(bench, 1);
  if (cell.ending === "drain") {
    bench.kill();
    await client.done(call);
    await bench.ended;
    return;
  }
  if (cell.ending === "cancel") await client.notify("notifications/cancelled", { requestId: call.id, reason: CLIENT_REASON });
  if (cell.ending === "disconnect") {
    call.channel.close();
    await untilHeld(bench, 0);
  }
  if (cell.ending === "timeout") await client.done(call);
  servers.answersAll = true;
  servers.release();
  if (cell.ending === "result") await client.done(call);
  await client.marker();
}

async function untilHeld(bench: Run["bench"], count: number): Promise<void> {
  let held = -1;
  while (held !== count) {
    const { shared, private: own, modern, asking } = (await readStatus(bench)).lanes;
    held = [shared, own, modern as typeof modern | undefined, ...Object.values(asking)].reduce(
      (sum, lane) => sum + (lane?.waiting ?? 0),
      0,
    );
  }
}

export async function cancel({ client }: Run, { id }: Call): Promise<void> {
  await client.notify("notifications/cancelled", { requestId: id, reason: CLIENT_REASON });
  await client.marker();
}

/** Closes the connection of a call, and waits until the server has noticed it, if it does. */
export async function disconnect(run: Run, { channel }: Call): Promise<void> {
  channel.close();
  await flush(run);
}

/** A client of HTTP+SSE has no session after its disconnection: another one lets its messages arrive. */
async function flush({ cell, client, bench, changes }: Run): Promise<void> {
  if (cell.client !== "sse") {
    await client.marker();
    return;
  }
  const other = new MatrixClient("2025", {}, bench, changes);
  await other.open();
  await other.marker();
}

/** Reads the rest of a stream that has ids. */
async function resume({ client, changes }: Run, { channel }: Call): Promise<void> {
  if (channel.lastEventId === "") return;
  const stream = client.openStream(channel.lastEventId);
  await changes.until(() => (stream.isOver ? true : undefined), "the rest of the stream");
}
