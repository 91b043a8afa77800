import { readdir, readFile } from "node:fs/promises";
import type { ServerResponse } from "node:http";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { gunzip } from "node:zlib";
import { SidecarError } from "../mcp/errors.ts";
import type { MemoryBudget } from "../memory.ts";
import type { Defects } from "../observe/log.ts";
import { addLoads } from "../server/call.ts";
import { shuttingDown } from "../server/failures.ts";
import type { Principal } from "../session/session.ts";
import { describeEndpoint } from "./app.ts";
import type { SseConnection, SseConnections } from "./event-streams.ts";
import type { ServerStatus } from "./health.ts";
import type { PageGeneration, PageLane, PageRequest, PageState, PageUpdate } from "./page-update.ts";
import type { RecentActivity, RecentRequest } from "./recent.ts";
import {
  acceptsGzip,
  acceptsHtml,
  discardBody,
  holderOf,
  type PrincipalRoute,
  reject,
  type Route,
  sendDefect,
  sendError,
} from "./response.ts";

/** The folder to which the build writes the compressed files. */
const FOLDER = fileURLToPath(new URL(import.meta.url.endsWith(".ts") ? "../../dist/page/" : "page/", import.meta.url));
const INDEX = "index.html";
const SUFFIX = ".gz";

const CONTENT_TYPES: ReadonlyMap<string, string> = new Map([
  ["html", "text/html; charset=utf-8"],
  ["js", "text/javascript; charset=utf-8"],
  ["css", "text/css; charset=utf-8"],
]);

/**
 * The page runs its own scripts only, connects to its own origin only, and cannot be framed. Results of tools have images as `data:` URLs.
 * Trusted types keep scripts from turning text into code or markup.
 */
const CONTENT_SECURITY_POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  "trusted-types 'none'",
].join("; ");

const SECURITY_HEADERS = {
  "Content-Security-Policy": CONTENT_SECURITY_POLICY,
  "Cross-Origin-Opener-Policy": "same-origin",
  "Cross-Origin-Resource-Policy": "same-origin",
  "Referrer-Policy": "no-referrer",
  "X-Content-Type-Options": "nosniff",
  "X-Frame-Options": "DENY",
};

const decompress = promisify(gunzip);

/** The files of the page. They are read at the first request, and stay in memory. */
export class PageFiles {
  readonly #defects: Pick<Defects, "recover">;
  readonly #endpointPath: string | null;
  #files: Promise<ReadonlyMap<string, Buffer>> | undefined;
  /** Of the files that a client has read without compression. Responses share the bytes, so those that are not read take no more memory. */
  readonly #decompressed = new Map<string, Promise<Buffer>>();

  /** @param endpointPath null if the MCP endpoint has another address. */
  constructor(defects: Pick<Defects, "recover">, endpointPath: string | null) {
    [this.#defects, this.#endpointPath] = [defects, endpointPath];
  }

  /** The route of the page itself. A cached page could name scripts of an older build. */
  readonly indexRoute: Route = (request, response) => {
    if (acceptsHtml(request)) return this.#answer(request, response, INDEX, "no-cache");
    // An MCP client may have the URL without its path.
    const endpoint = describeEndpoint(this.#endpointPath ?? undefined);
    reject(request, response, new SidecarError("NOT_FOUND", `There is only a page for browsers at /; ${endpoint}.`));
  };

  /** The route of all other files. Their names have a hash of their content. */
  readonly fileRoute: Route = (request, response) => {
    const name = /^\/page\/(?<name>[\w.-]+)\/?(?:\?|$)/.exec(request.url ?? "")?.groups?.["name"] ?? "";
    this.#answer(request, response, name === INDEX ? "" : name, "public, max-age=31536000, immutable");
  };

  #answer(...[request, response, name, cacheControl]: [...Parameters<Route>, name: string, cacheControl: string]): void {
    this.#files ??= readFiles();
    const respond = async (files: ReadonlyMap<string, Buffer>): Promise<void> => {
      const compressed = files.get(name);
      if (compressed === undefined) {
        const message = "The page has no such file. If the sidecar was updated, load the page again.";
        return reject(request, response, new SidecarError("NOT_FOUND", message));
      }
      discardBody(request);
      const isCompressed = acceptsGzip(request);
      const content = isCompressed ? compressed : await this.#decompress(name, compressed);
      send(response, content, {
        ...SECURITY_HEADERS,
        "Content-Type": CONTENT_TYPES.get(name.slice(name.lastIndexOf(".") + 1)) ?? "application/octet-stream",
        "Cache-Control": cacheControl,
        Vary: "Accept, Accept-Encoding",
        ...(isCompressed ? { "Content-Encoding": "gzip" } : {}),
      });
    };
    this.#files.then(respond).catch((error: unknown) => {
      // The next request tries again.
      this.#files = undefined;
      this.#decompressed.clear();
      this.#defects.recover("page", error, () => sendDefect(response, false));
    });
  }

  #decompress(name: string, compressed: Buffer): Promise<Buffer> {
    let decompressed = this.#decompressed.get(name);
    if (decompressed === undefined) this.#decompressed.set(name, (decompressed = decompress(compressed)));
    return decompressed;
  }
}

function send(response: ServerResponse, content: Buffer, headers: Readonly<Record<string, string>>): void {
  if (response.headersSent || response.destroyed) return;
  response.writeHead(200, { ...headers, "Content-Length": content.length }).end(content);
}

async function readFiles(): Promise<ReadonlyMap<string, Buffer>> {
  const names = (await readdir(FOLDER)).filter((name) => name.endsWith(SUFFIX));
  return new Map(
    await Promise.all(names.map(async (name) => [name.slice(0, -SUFFIX.length), await readFile(`${FOLDER}${name}`)] as const)),
  );
}

interface PageStateOptions extends Pick<PageState, "version" | "command" | "endpointPath" | "isIsolated"> {
  /** True if clients that can be asked get servers of their own. */
  readonly isolatesQuestions: boolean;
  readonly status: () => ServerStatus;
  readonly memory: Pick<MemoryBudget, "status">;
  readonly nowMs: () => number;
}

/** Creates a function that returns the present state for the page. */
export function createReadState(options: PageStateOptions): () => PageState {
  const { version, command, endpointPath, isIsolated, isolatesQuestions, memory, nowMs } = options;
  const startedAtMs = nowMs();

  return () => {
    const status = options.status();
    const { upstream, sessions, openStreams, stateless } = status;
    const { state, pid, generation, restarts, readyAt, nextRetryAt, lastExit } = upstream;
    const exit = state === "ready" ? undefined : lastExit;
    const { limitBytes, usedBytes } = memory.status;
    return {
      version,
      uptimeMs: Math.round(nowMs() - startedAtMs),
      command,
      endpointPath,
      isIsolated,
      hasOwnServerForQuestions: isolatesQuestions && stateless?.serverEra !== "modern",
      state,
      pid: pid ?? null,
      generation,
      restarts,
      readySince: state === "ready" ? (readyAt?.toISOString() ?? null) : null,
      nextRetryAt: nextRetryAt?.toISOString() ?? null,
      reason: exit?.reason ?? null,
      likelyCause: exit?.likelyCause ?? null,
      sessions,
      statelessClients: stateless?.clients ?? 0,
      openStreams,
      lanes: lanesOf(status),
      memory: { limitBytes, usedBytes },
      rssBytes: process.memoryUsage.rss(),
    };
  };
}

function lanesOf({ upstream, lanes }: ServerStatus): Readonly<Record<string, PageLane>> {
  const { shared, private: ofClients, modern, asking } = lanes;
  const askingLanes = Object.values(asking);
  const servers = askingLanes.reduce((sum, each) => sum + each.servers, 0);
  return {
    shared: laneOf({ ...shared, servers: Number(upstream.pid !== undefined) }),
    private: laneOf(ofClients),
    modern: laneOf(modern),
    asking: laneOf({ ...addLoads(askingLanes), servers }),
  };
}

function laneOf({ requestsInFlight, waiting, queuedBytes, servers }: PageLane): PageLane {
  return { requestsInFlight, waiting, queuedBytes, servers };
}

/** Each open page costs one serialisation per second. A further one replaces the oldest. */
const MAX_STREAMS = 8;
const UPDATE_INTERVAL_MS = 1000;
/** The stream is for `fetch` only. */
const HEADERS = { "X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY" };

interface PageStreamsOptions {
  readonly activity: RecentActivity;
  readonly readState: () => PageState;
  readonly connections: Pick<SseConnections, "open">;
  readonly memory: Pick<MemoryBudget, "account">;
  /** A replacer for `JSON.stringify` that masks secrets. */
  readonly replacer: (key: string, value: unknown) => unknown;
  readonly defects: Pick<Defects, "guard">;
}

/** An open page, and the part of the history that it has received. */
interface PageStream {
  readonly response: ServerResponse;
  readonly connection: SseConnection;
  readonly principal: Principal | undefined;
  hasBegun: boolean;
  nextSecond: number;
  requestCount: number;
  logLineCount: number;
  generations: readonly PageGeneration[] | undefined;
}

/** The event streams of open pages. Each gets the state and the new history every second. */
export class PageStreams {
  readonly #options: PageStreamsOptions;
  readonly #open = new Set<PageStream>();
  #timer: NodeJS.Timeout | undefined;
  #isClosed = false;

  constructor(options: PageStreamsOptions) {
    this.#options = options;
  }

  readonly route: PrincipalRoute = (request, response, principal) => {
    discardBody(request);
    // A stream that opens now would delay the end of the sidecar.
    if (this.#isClosed) return sendError(response, shuttingDown("GET", false));
    const [oldest] = this.#open;
    // A client that never reads must not keep people out.
    if (oldest !== undefined && this.#open.size >= MAX_STREAMS) this.#replace(oldest);
    const connection = this.#options.connections.open(response, this.#options.memory.account(holderOf(request, principal)), HEADERS);
    const stream = {
      response,
      connection,
      principal,
      hasBegun: false,
      nextSecond: 0,
      requestCount: 0,
      logLineCount: 0,
      generations: undefined,
    };
    this.#open.add(stream);
    connection.onClosed = () => this.#onClosed(stream);
    this.#send(stream, this.#options.readState());
    this.#timer ??= setInterval(() => this.#options.defects.guard("page", () => this.#sendAll()), UPDATE_INTERVAL_MS).unref();
  };

  #replace(stream: PageStream): void {
    this.#open.delete(stream);
    end(stream, () => stream.connection.sendWithoutId("replaced", "{}"));
  }

  /** Ends the streams of a principal. */
  endAllOf(owner: Principal): void {
    for (const { connection, principal } of this.#open) if (principal === owner) connection.cutOff();
  }

  /** Sends the last updates, ends all streams, and rejects new ones. */
  close(): void {
    this.#isClosed = true;
    const { readState, defects } = this.#options;
    // The sidecar must stop even after a defect.
    for (const stream of this.#open) end(stream, () => defects.guard("page", () => this.#send(stream, readState())));
  }

  #sendAll(): void {
    const state = this.#options.readState();
    for (const stream of this.#open) this.#send(stream, state);
  }

  /** Sends the new history, unless the last update is still unread. The next update then has what is still kept. */
  #send(stream: PageStream, state: PageState): void {
    if (stream.hasBegun && stream.response.writableLength > 0) return;
    stream.hasBegun = true;
    const { activity, replacer } = this.#options;
    const { requests, rate, generations, log } = activity;
    const { current } = rate;
    const update: PageUpdate = {
      state,
      seconds: rate.between(stream.nextSecond, current),
      requests: requests.after(stream.requestCount).map(pageRequest),
      logLines: log.lines.after(stream.logLineCount),
      generations: generations.all === stream.generations ? undefined : generations.all,
    };
    stream.nextSecond = current;
    stream.requestCount = requests.count;
    stream.logLineCount = log.lines.count;
    stream.generations = generations.all;
    stream.connection.sendWithoutId("update", JSON.stringify(update, replacer));
  }

  #onClosed(stream: PageStream): void {
    this.#open.delete(stream);
    if (this.#open.size > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }
}

function pageRequest({ at, durationMs, ...rest }: RecentRequest): PageRequest {
  return { at: new Date(at).toISOString(), durationMs: durationMs === null ? null : Math.round(durationMs * 10) / 10, ...rest };
}

/** Sends the last event, and ends the stream. A client that has not read the one before may never do so. */
function end({ response, connection }: PageStream, sendLast: () => void): void {
  const isUnread = response.writableLength > 0;
  sendLast();
  connection.end(isUnread);
}
