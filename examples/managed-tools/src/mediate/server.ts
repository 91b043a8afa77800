import { type HttpBindings, serve, type ServerType } from "@hono/node-server";
import { type Context, Hono } from "hono";
import { bodyLimit } from "hono/body-limit";
import { once } from "node:events";
import type { IncomingMessage } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { isJsonObject, type JsonObject } from "../manifest.ts";
import { ANTHROPIC } from "./anthropic.ts";
import { HiddenRounds } from "./continuity.ts";
import { Executor } from "./execute.ts";
import type { Format } from "./format.ts";
import { rejectionOf, rejectPages } from "./guards.ts";
import { HeldBodies } from "./held-bodies.ts";
import { MAX_VALUES, parseJson } from "./json.ts";
import { Manifests } from "./manifests.ts";
import { OPENAI } from "./openai.ts";
import { delay, formatOf, headersFor, passOn, respond, streamed } from "./responses.ts";
import { startTrace } from "./trace.ts";
import { Turn } from "./turn.ts";

const FORMATS: readonly Format[] = [OPENAI, ANTHROPIC];
const MAX_BODY_BYTES = 32 * 1024 * 1024;
/** Of an agent, until their responses have been sent. One agent must not take the memory and the servers of the others. */
const MAX_REQUESTS = 32;
/** Of a connection, at once. */
const MAX_BURST = 16;
/** A status can be sent until the stream begins, so it begins when the turn takes longer than most errors. */
const KEEP_ALIVE_MS = 5000;
const LOOPBACK = "127.0.0.1";

export interface MediatorOptions {
  /** Has a folder for each agent, as `compile` writes it. */
  readonly contextFolder: string;
  /** The provider of the model, without `/v1`. */
  readonly modelUrl: string;
  /** Replaces the key of the runner; undefined to pass that on. */
  readonly modelKey?: string | undefined;
  readonly host?: string;
  /** Names of the proxy besides those that no web page can have. */
  readonly allowedHosts?: readonly string[];
  /** 0 for any free port. */
  readonly port: number;
  readonly keepAliveMs?: number;
  /** Gets a line of JSON for each request. */
  readonly onTrace: (line: string) => void;
  readonly warn: (text: string) => void;
}

export interface Mediator extends AsyncDisposable {
  /** Without a path. The URL of an agent is this with `/AGENT`. */
  readonly url: string;
  /** Ends all turns, without a wait for servers that do not answer. */
  close(): Promise<void>;
}

/** Starts the proxy between runners and a model. The path of a request begins with the name of its agent. */
export async function startMediator(options: MediatorOptions): Promise<Mediator> {
  const executor = new Executor();
  const { host = LOOPBACK, port } = options;
  const server: ServerType = serve({ fetch: createApp(options, executor).fetch, hostname: host, port });
  limitBursts(server);
  await once(server, "listening");
  const address = server.address() as AddressInfo;
  async function close(): Promise<void> {
    const closed = once(server, "close");
    server.close();
    if ("closeAllConnections" in server) server.closeAllConnections();
    await Promise.all([closed, executor.close()]);
  }
  return { url: `http://${host.includes(":") ? `[${host}]` : host}:${address.port}`, close, [Symbol.asyncDispose]: close };
}

/**
 * Makes Node drop the requests of a connection that have arrived at once, above a limit. Otherwise, it would handle thousands of them before
 * anything else. The API to stop the parser is not documented; without it, they cost that time.
 */
function limitBursts(server: ServerType): void {
  const reads = new WeakMap<Socket, { readonly bytes: number; count: number }>();
  server.prependListener("request", ({ socket }: IncomingMessage) => {
    const last = reads.get(socket);
    if (last?.bytes !== socket.bytesRead) {
      reads.set(socket, { bytes: socket.bytesRead, count: 1 });
      return;
    }
    const { parser } = socket as { readonly parser?: { onIncoming?: () => number } | null };
    if (++last.count === MAX_BURST && typeof parser?.onIncoming === "function") parser.onIncoming = () => -1;
  });
}

function addGuards(app: Hono, { host = LOOPBACK, allowedHosts = [], warn }: MediatorOptions): void {
  app.onError((error, context) => {
    warn(error.stack ?? error.message);
    return context.json(formatOf(context).error(502, "The proxy has failed."), 502);
  });
  app.notFound((context) => context.json(formatOf(context).error(404, "The path must be /AGENT/v1/…, with an agent of the pod."), 404));
  rejectPages(app, host, allowedHosts);
  limitRequests(app);
  const onError = (context: Context): Response =>
    context.json(formatOf(context).error(413, `The body has more than ${MAX_BODY_BYTES} bytes.`), 413);
  app.use(bodyLimit({ maxSize: MAX_BODY_BYTES, onError }));
}

function limitRequests(app: Hono): void {
  const inFlight = new Map<string, number>();
  app.use("/:agent/*", async (context: Context<{ Bindings: HttpBindings }, "/:agent/*">, next) => {
    const agent = context.req.param("agent");
    const count = inFlight.get(agent) ?? 0;
    if (count >= MAX_REQUESTS) {
      context.header("Retry-After", "1");
      return context.json(formatOf(context).error(429, `${agent.slice(0, 64)} has ${count} requests in flight. Nothing was sent.`), 429);
    }
    inFlight.set(agent, count + 1);
    context.env.outgoing.once("close", () => {
      const left = (inFlight.get(agent) ?? 1) - 1;
      if (left === 0) inFlight.delete(agent);
      else inFlight.set(agent, left);
    });
    return next();
  });
}

function createApp(options: MediatorOptions, executor: Executor): Hono {
  const { contextFolder, modelUrl, modelKey, keepAliveMs = KEEP_ALIVE_MS, onTrace, warn } = options;
  const manifests = new Manifests(contextFolder, warn);
  const hiddenRounds = new Map<string, HiddenRounds>();
  const bodies = new HeldBodies();
  const app = new Hono();

  addGuards(app, options);
  app.all("/:agent/v1/*", async (context) => {
    const agent = context.req.param("agent");
    if (!manifests.has(agent)) return context.json(formatOf(context).error(404, `The pod has no agent ${agent.slice(0, 64)}.`), 404);
    const { pathname, search } = new URL(context.req.url);
    // The name may be percent-encoded in the path.
    const path = pathname.slice(pathname.indexOf("/", 1)).replaceAll(/\/+/g, "/").replace(/\/$/, "");
    const rejection = rejectionOf(context.req.method, path);
    if (rejection !== undefined) return context.json(formatOf(context).error(404, rejection), 404);
    const manifest = manifests.of(agent);
    const trace = startTrace(onTrace, warn, { agent, path }, manifest);
    const format = FORMATS.find((each) => each.path === path);
    const target = modelUrl.replace(/\/$/, "") + path + search;
    if (format === undefined || manifest === undefined || manifest.tools.length === 0) {
      const response = await passOn(context, target, headersFor(context, modelKey), warn);
      trace({ status: response.status, ending: "passed", tool_trace: [] });
      return response;
    }
    const body = parsed(await bodies.read(context, agent).catch(() => ""));
    if (body instanceof Rejection) {
      trace({ status: body.status, ending: body.ending, tool_trace: [] });
      if (body.status === 429) context.header("Retry-After", "1");
      return context.json(format.error(body.status, body.message), body.status);
    }
    const headers = headersFor(context, modelKey);
    headers.set("content-type", "application/json");
    const runnerLeft = new AbortController();
    const rounds = hiddenRounds.get(agent) ?? new HiddenRounds();
    hiddenRounds.set(agent, rounds);
    const turn = new Turn({
      credentials: `${context.req.header("authorization")} ${context.req.header("x-api-key")}`,
      format,
      manifest,
      body,
      executor,
      hiddenRounds: rounds,
      ask: (request, signal) => fetch(target, { method: "POST", headers, body: JSON.stringify(request), redirect: "manual", signal }),
      signal: AbortSignal.any([runnerLeft.signal, context.req.raw.signal]),
    });
    const ended = turn.run().then((end) => {
      trace({ status: end.status, ending: end.ending, tool_trace: turn.rounds });
      return end;
    });
    if (body["stream"] !== true) return respond(context, await ended);
    const endBeforeStream = await Promise.race([ended, delay(keepAliveMs)]);
    if (endBeforeStream !== undefined && endBeforeStream.status !== 200) return respond(context, endBeforeStream);
    return streamed(context, format, body, ended, keepAliveMs, runnerLeft);
  });
  return app;
}

class Rejection {
  readonly status: 400 | 429;
  readonly ending: string;
  readonly message: string;
  constructor(status: 400 | 429, ending: string, message: string) {
    [this.status, this.ending, this.message] = [status, ending, message];
  }
}

/** @param text undefined if there was no room for it. */
function parsed(text: string | undefined): JsonObject | Rejection {
  if (text === undefined) return new Rejection(429, "busy", "The bodies of requests in flight are too large together. Nothing was sent.");
  const body = parseJson(text);
  return isJsonObject(body) ? body : new Rejection(400, "invalid", `The body is not a JSON object, or has more than ${MAX_VALUES} values.`);
}
