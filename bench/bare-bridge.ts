// The ceiling for all targets: the minimal Node process that forwards JSON-RPC
// between HTTP and one stdio server. It has no auth, logs, sessions, replay,
// limits or supervision, and is not for real use.

import { spawn } from "node:child_process";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";

interface Message {
  id?: string | number;
  method?: string;
  params?: Params;
}

interface Params {
  progressToken?: unknown;
  _meta?: { progressToken?: unknown };
}

interface Waiting {
  id: string | number;
  progressToken: unknown;
  response: ServerResponse;
}

const HANDSHAKE_ID = 0;
const SESSION_ID = "bare";
const NEWLINE = 10;

const [port, command, ...commandArgs] = process.argv.slice(2);
if (port === undefined || command === undefined) {
  throw new Error("usage: bare-bridge.ts PORT COMMAND [ARGS...]");
}

const child = spawn(command, commandArgs, { stdio: ["pipe", "pipe", "inherit"] });
const waitingByInnerId = new Map<number, Waiting>();
/** The open GET streams. */
const listeners = new Set<ServerResponse>();
let lastInnerId = HANDSHAKE_ID;
let handshakeDone = false;

const server = createServer((request, response) => {
  if (request.method === "POST") readBody(request, (body) => forward(body, response));
  else if (request.url === "/healthz") endEmpty(response, handshakeDone ? 200 : 503);
  else if (request.method === "GET") listen(response);
  else endEmpty(response, request.method === "DELETE" ? 200 : 405);
});
server.listen(Number(port), "127.0.0.1");

process.on("SIGTERM", () => process.exit(0));
child.on("exit", () => process.exit(1));

writeToChild({
  jsonrpc: "2.0",
  id: HANDSHAKE_ID,
  method: "initialize",
  params: {
    protocolVersion: "2025-11-25",
    capabilities: {},
    clientInfo: { name: "bare-bridge", version: "1.0.0" },
  },
});
splitLines((line) => {
  const message = parseMessage(line);
  if (message.id === HANDSHAKE_ID) {
    writeToChild({ jsonrpc: "2.0", method: "notifications/initialized" });
    handshakeDone = true;
  } else {
    deliver(message);
  }
});

function readBody(request: IncomingMessage, done: (body: string) => void): void {
  const chunks: Buffer[] = [];
  request.on("data", (chunk: Buffer) => chunks.push(chunk));
  request.on("end", () => {
    const [first] = chunks;
    const whole = chunks.length === 1 && first !== undefined ? first : Buffer.concat(chunks);
    done(whole.toString());
  });
}

function parseMessage(text: string): Message {
  const value: unknown = JSON.parse(text);
  if (!isMessage(value)) throw new Error("not a JSON-RPC message");
  return value;
}

function isMessage(value: unknown): value is Message {
  return typeof value === "object" && value !== null;
}

function forward(body: string, response: ServerResponse): void {
  const message = parseMessage(body);
  if (message.id === undefined) {
    writeToChild(message);
    endEmpty(response, 202);
    return;
  }
  lastInnerId += 1;
  const { _meta: meta }: Params = message.params ?? {};
  waitingByInnerId.set(lastInnerId, { id: message.id, progressToken: meta?.progressToken, response });
  message.id = lastInnerId;
  if (meta?.progressToken !== undefined) meta.progressToken = lastInnerId;
  writeToChild(message);
}

function listen(response: ServerResponse): void {
  startEvents(response);
  response.flushHeaders();
  listeners.add(response);
  response.on("close", () => listeners.delete(response));
}

function deliver(message: Message): void {
  if (message.method === "notifications/progress") return deliverProgress(message);
  if (message.method !== undefined) return deliverToListeners(message);
  const innerId = Number(message.id);
  const waiting = waitingByInnerId.get(innerId);
  if (waiting === undefined) return;
  waitingByInnerId.delete(innerId);
  message.id = waiting.id;
  if (waiting.response.headersSent) {
    sendEvent(waiting.response, JSON.stringify(message));
    waiting.response.end();
    return;
  }
  const body = JSON.stringify(message);
  waiting.response.writeHead(200, {
    "Content-Type": "application/json",
    "Content-Length": Buffer.byteLength(body),
    "Mcp-Session-Id": SESSION_ID,
  });
  waiting.response.end(body);
}

function deliverProgress(message: Message): void {
  const { params } = message;
  const waiting = waitingByInnerId.get(Number(params?.progressToken));
  if (params === undefined || waiting === undefined) return;
  params.progressToken = waiting.progressToken;
  if (!waiting.response.headersSent) startEvents(waiting.response);
  sendEvent(waiting.response, JSON.stringify(message));
}

function deliverToListeners(message: Message): void {
  const text = JSON.stringify(message);
  for (const response of listeners) sendEvent(response, text);
}

function startEvents(response: ServerResponse): void {
  response.writeHead(200, { "Content-Type": "text/event-stream", "Mcp-Session-Id": SESSION_ID });
}

/** Sends an event. All events of one turn are sent together. */
function sendEvent(response: ServerResponse, text: string): void {
  if (response.writableCorked === 0) {
    response.cork();
    process.nextTick(() => response.uncork());
  }
  response.write(`event: message\ndata: ${text}\n\n`);
}

function writeToChild(message: object): void {
  child.stdin.write(`${JSON.stringify(message)}\n`);
}

/** Splits chunks into lines. The parts of an unfinished line are joined only once, so that a long line is copied once. */
function splitLines(onLine: (line: string) => void): void {
  let parts: Buffer[] = [];
  child.stdout.on("data", (chunk: Buffer) => {
    let start = 0;
    for (let end = chunk.indexOf(NEWLINE); end !== -1; end = chunk.indexOf(NEWLINE, start)) {
      const lastPart = chunk.subarray(start, end);
      const line = parts.length === 0 ? lastPart : Buffer.concat([...parts, lastPart]);
      parts = [];
      start = end + 1;
      onLine(line.toString());
    }
    if (start < chunk.length) parts.push(chunk.subarray(start));
  });
}

function endEmpty(response: ServerResponse, status: number): void {
  response.writeHead(status, { "Content-Length": 0 });
  response.end();
}
