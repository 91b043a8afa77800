import { HttpBench } from "../http-bench.ts";
import type { JsonRpcMessage } from "../json-rpc.ts";
import { ASKABLE } from "../mcp-client.ts";
import { META } from "../modern-client.ts";
import { Changes } from "../changes.ts";
import type { Cell, Kind } from "./cells.ts";
import { MatrixClient } from "./matrix-client.ts";
import { runQuestion } from "./question-cells.ts";
import { renderReply, renderServers } from "./render.ts";
import { runHeld, runRequest } from "./request-cells.ts";
import { type Run, WORK } from "./run.ts";
import { resultOf, type ScriptedServer, ScriptedServers } from "./scripted-server.ts";

const URI = "test://one";

const STEPS: Readonly<Record<Kind, (run: Run) => Promise<void>>> = {
  open: runOpen,
  "tools/list": (run) => runRequest(run, "tools/list", { cursor: "cell" }),
  "tools/call": (run) => runRequest(run, "tools/call", WORK),
  "tools/call with progress": (run) => runRequest(run, "tools/call", WORK, "p"),
  "held tools/call": runHeld,
  "resources/read": (run) => runRequest(run, "resources/read", { uri: URI }),
  "unknown method": (run) => runRequest(run, "custom/unknown", {}),
  ping: (run) => runRequest(run, "ping", { cursor: "cell" }),
  "client notification": runNotification,
  elicitation: (run) => runQuestion(run, "elicitation/create"),
  sampling: (run) => runQuestion(run, "sampling/createMessage"),
  roots: (run) => runQuestion(run, "roots/list"),
  "log message": runLog,
  "server's ping": runServerPing,
  "list change": runListChange,
  "resource update": runUpdate,
};

/** Runs a cell with a sidecar of its own. @returns what its server and its client got, as a line. */
export async function runCell(cell: Cell): Promise<string> {
  const changes = new Changes();
  const servers = new ScriptedServers(cell.server, changes);
  const command = [process.execPath, "scripted"];
  await using bench = await HttpBench.start({ command, startProcess: servers.start, flags: flagsOf(cell) });
  const client = new MatrixClient(cell.client, cell.capability === "all" ? ASKABLE : {}, bench, changes);
  const isStarted = ({ method }: JsonRpcMessage): boolean => method === "notifications/initialized" || method === "subscriptions/listen";
  await servers.wait(isStarted, "the end of the handshake");
  servers.received = [];
  if (cell.kind !== "open") {
    await client.open();
    await client.marker();
    if (cell.ending === "timeout") await callOnce(client, servers);
    client.forget();
    servers.received = [];
    servers.countBefore = servers.processes.length;
  }
  try {
    await STEPS[cell.kind]({ cell, bench, servers, client, changes });
    const showsSubscriptions = ["open", "list change", "resource update"].includes(cell.kind);
    return `${renderServers(servers, showsSubscriptions)} | ${client.replies.map(renderReply).join("; ")}`;
  } finally {
    client.close();
    servers.answersAll = true;
  }
}

/** Makes a tool call, so that the sidecar knows the tools, and the next one is sent at once. */
async function callOnce(client: MatrixClient, servers: ScriptedServers): Promise<void> {
  servers.answersAll = true;
  await client.done(client.call("tools/call", WORK, { isHidden: true }));
  servers.answersAll = false;
}

/** Only the time that a cell is about is short, and a busy machine must be able to send the request within it. */
function flagsOf({ kind, ending, client, server }: Cell): string[] {
  const flags = ["--legacy-sse", "--restart-backoff-ms", "1"];
  if (ending === "drain") return [...flags, "--drain-timeout-ms", "100"];
  if (ending === "answered drain") return [...flags, "--drain-timeout-ms", "60000"];
  if (ending !== "timeout") return flags;
  if (kind === "held tools/call") return [...flags, "--hold-timeout-ms", "2000"];
  if (kind === "tools/list") return [...flags, "--request-timeout-ms", "2000"];
  if (kind !== "elicitation" || (client !== "2026" && server === "2025")) return [...flags, "--tool-timeouts-ms", "work=2000"];
  if (client === "2026") return [...flags, "--park-timeout-ms", "300"];
  // A session has ten times REQUEST_TIMEOUT_MS for its answer.
  return [...flags, "--request-timeout-ms", "2000", "--tool-timeouts-ms", "work=60000"];
}

async function runOpen({ cell, bench, servers, client, changes }: Run): Promise<void> {
  if (cell.ending === "result") {
    await client.open();
    await client.marker();
    return;
  }
  const other = new MatrixClient("2025", {}, bench, changes);
  await other.open();
  const call = other.call("tools/call", WORK);
  const { process: number, message } = await servers.wait(({ method }) => method === "tools/call", "the call");
  servers.received = [];
  bench.kill();
  await client.open();
  servers.process(number).respond(message, resultOf("tools/call"));
  await other.done(call);
  await bench.ended;
}

async function runNotification({ cell, servers, client }: Run): Promise<void> {
  if (cell.ending === "crash") await servers.crashAndHold();
  await client.notify("notifications/roots/list_changed");
  await client.notify("notifications/custom");
  servers.release();
  await client.marker();
}

async function runLog({ cell, servers, client }: Run): Promise<void> {
  const isModern = cell.client === "2026";
  if (!isModern) await client.done(client.call("logging/setLevel", { level: "info" }));
  const call = client.call("tools/call", WORK, isModern ? { meta: { [META.logLevel]: "info" } } : {});
  const { process: number, message } = await servers.wait(({ method }) => method === "tools/call", "the call");
  const server = servers.process(number);
  for (const level of ["debug", "info"]) server.send({ method: "notifications/message", params: { level, data: "text" } });
  server.respond(message, resultOf("tools/call"));
  await client.done(call);
}

async function runServerPing({ servers, client }: Run): Promise<void> {
  const call = client.call("tools/call", WORK);
  const { process: number, message } = await servers.wait(({ method }) => method === "tools/call", "the call");
  const server = servers.process(number);
  server.send({ id: "ping", method: "ping" });
  await servers.wait(({ id, method }) => id === "ping" && method === undefined, "the response to its ping");
  server.respond(message, resultOf("tools/call"));
  await client.done(call);
}

async function runListChange(run: Run): Promise<void> {
  await openStream(run, { toolsListChanged: true });
  await runChanges(run, (server) => server.announce("notifications/tools/list_changed", {}, "toolsListChanged"));
}

async function runUpdate(run: Run): Promise<void> {
  const { cell, client, servers } = run;
  if (cell.ending === "error") for (const method of ["resources/subscribe", "subscriptions/listen"]) servers.refused.add(method);
  await openStream(run, { resourceSubscriptions: [URI] });
  if (cell.client !== "2026") await client.done(client.call("resources/subscribe", { uri: URI }));
  if (cell.ending === "cancel") await client.done(client.call("resources/unsubscribe", { uri: URI }));
  await runChanges(run, (server) => server.announce("notifications/resources/updated", { uri: URI }, "resourceSubscriptions"));
}

/** Opens what the client gets notifications on, and waits until it is open. */
async function openStream({ cell, client, changes }: Run, notifications: object): Promise<void> {
  if (cell.client === "2026") {
    const call = client.call("subscriptions/listen", { notifications });
    await changes.until(() => (call.messages.length > 0 || call.isDone ? true : undefined), "the acknowledgement");
  } else if (cell.client === "2025") {
    const stream = client.openStream();
    await changes.until(() => (stream.head === "" ? undefined : true), "the stream");
  }
}

async function runChanges({ cell, bench, servers, client, changes }: Run, announce: (server: ScriptedServer) => void): Promise<void> {
  const streams = client.replies.filter(({ state }) => state === "open");
  if (cell.ending === "drain") {
    bench.kill();
    await changes.until(() => (streams.every(({ isOver }) => isOver) ? true : undefined), "the end of the streams");
    await bench.ended;
    return;
  }
  if (cell.ending === "disconnect") for (const stream of streams) stream.close();
  await client.marker();
  if (cell.ending === "crash") {
    servers.current.crash();
    await client.marker();
  }
  for (const server of servers.processes) announce(server);
  await client.marker();
}
