import { readdir, readFile } from "node:fs/promises";
import type { IncomingMessage, ServerResponse } from "node:http";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { gunzip } from "node:zlib";
import { maskArgs, maskCommand } from "../config/secret-file.ts";
import type { Context } from "../context.ts";
import { SidecarError } from "../mcp/errors.ts";
import { shuttingDown } from "../server/failures.ts";
import type { Principal } from "../session/session.ts";
import { Timer } from "../timers.ts";
import { describeEndpoint } from "./app.ts";
import { type SseConnection, SseConnections } from "./event-streams.ts";
import { laneLoads, type Status } from "./health.ts";
import type { PageGeneration, PageState, PageUpdate } from "./page-update.ts";
import { pageRequest, type RecentActivity } from "./recent.ts";
import { acceptsGzip, acceptsHtml, discardBody, holderOf, reject, type Route, sendDefect, sendError } from "./response.ts";
import { UnreadOutput } from "./unread-output.ts";

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
class PageFiles {
  readonly #context: Context;
  #files: Promise<ReadonlyMap<string, Buffer>> | undefined;
  /** Of the files that a client has read without compression. Responses share the bytes, so those that are not read take no more memory. */
  readonly #decompressed = new Map<string, Promise<Buffer>>();

  constructor(context: Context) {
    this.#context = context;
  }

  /** The route of the page itself. A cached page could name scripts of an older build. */
  readonly index: Route = (request, response) => {
    if (acceptsHtml(request)) return this.#answer(request, response, INDEX, "no-cache");
    // An MCP client may have the URL without its path.
    const endpoint = describeEndpoint(endpointPath(this.#context));
    reject(request, response, new SidecarError("NOT_FOUND", `There is only a page for browsers at /; ${endpoint}.`));
  };

  /** The route of all other files. Their names have a hash of their content. */
  readonly file: Route = (request, response) => {
    const name = /^\/page\/(?<name>[\w.-]+)\/?(?:\?|$)/.exec(request.url ?? "")?.groups?.["name"] ?? "";
    this.#answer(request, response, name === INDEX ? "" : name, "public, max-age=31536000, immutable");
  };

  #answer(request: IncomingMessage, response: ServerResponse, name: string, cacheControl: string): void {
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
      if (response.headersSent || response.destroyed) return;
      response.writeHead(200, {
        ...SECURITY_HEADERS,
        "Content-Type": CONTENT_TYPES.get(name.slice(name.lastIndexOf(".") + 1)) ?? "application/octet-stream",
        "Cache-Control": cacheControl,
        Vary: "Accept, Accept-Encoding",
        ...(isCompressed ? { "Content-Encoding": "gzip" } : {}),
        "Content-Length": content.length,
      });
      response.end(content);
    };
    this.#files.then(respond).catch((error: unknown) => {
      // The next request tries again.
      this.#files = undefined;
      this.#decompressed.clear();
      this.#context.defects.recover("page", error, () => sendDefect(response, false));
    });
  }

  #decompress(name: string, compressed: Buffer): Promise<Buffer> {
    let decompressed = this.#decompressed.get(name);
    if (decompressed === undefined) this.#decompressed.set(name, (decompressed = decompress(compressed)));
    return decompressed;
  }
}

async function readFiles(): Promise<ReadonlyMap<string, Buffer>> {
  const names = (await readdir(FOLDER)).filter((name) => name.endsWith(SUFFIX));
  return new Map(
    await Promise.all(names.map(async (name) => [name.slice(0, -SUFFIX.length), await readFile(`${FOLDER}${name}`)] as const)),
  );
}

/** @returns undefined if the MCP endpoint has another address than the page. */
function endpointPath({ config }: Context): string | undefined {
  return config.adminAddr === undefined ? config.path : undefined;
}

function pageState(context: Context, status: Status): PageState {
  const { config } = context;
  const { version, uptimeMs, upstream, sessions, openStreams, stateless, memory, rssBytes } = status;
  const { state, pid, generation, restarts, readyAt, nextRetryAt, lastExit } = upstream;
  const exit = state === "ready" ? undefined : lastExit;
  return {
    version,
    uptimeMs,
    command: [maskCommand(config.command), ...maskArgs(config.args)],
    endpointPath: endpointPath(context) ?? null,
    isIsolated: config.isolation === "session",
    hasOwnServerForQuestions: config.isolation === "auto" && stateless?.serverEra !== "modern",
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
    lanes: laneLoads(status),
    memory: { limitBytes: memory.limitBytes, usedBytes: memory.usedBytes },
    rssBytes,
  };
}

/** Each open page costs one serialisation per second. A further one replaces the oldest. */
const MAX_STREAMS = 8;
const UPDATE_INTERVAL_MS = 1000;
/** The stream is for `fetch` only. */
const HEADERS = { "X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY" };

/** An open page, and the part of the history that it has received. */
interface PageStream {
  readonly response: ServerResponse;
  readonly connection: SseConnection;
  readonly principal: Principal | undefined;
  nextSecond: number;
  requestCount: number;
  logLineCount: number;
  /** Undefined before the first update. */
  generations: readonly PageGeneration[] | undefined;
}

/** The page: its files, and the event streams of open pages. Each gets the state and the new history every second. */
export class Page {
  readonly routes: Readonly<Record<"page" | "pageEvents" | "pageFile", Route>>;
  readonly #context: Context;
  readonly #activity: RecentActivity;
  readonly #readState: () => PageState;
  readonly #connections: SseConnections;
  readonly #open = new Set<PageStream>();
  readonly #updates: Timer;
  #isClosed = false;

  constructor(context: Context, activity: RecentActivity, status: () => Status) {
    [this.#context, this.#activity] = [context, activity];
    this.#updates = new Timer(context.timers, (nowMs) => this.#sendAll(nowMs));
    this.#readState = () => pageState(context, status());
    this.#connections = new SseConnections(context, new UnreadOutput(context));
    const files = new PageFiles(context);
    this.routes = {
      page: files.index,
      pageEvents: (request, response, principal) => this.#openStream(request, response, principal),
      pageFile: files.file,
    };
  }

  #openStream(request: IncomingMessage, response: ServerResponse, principal: Principal | undefined): void {
    const { memory, nowMs } = this.#context;
    discardBody(request);
    // A stream that opens now would delay the end of the sidecar.
    if (this.#isClosed) return sendError(response, shuttingDown("GET", false));
    const [oldest] = this.#open;
    // A client that never reads must not keep people out.
    if (oldest !== undefined && this.#open.size >= MAX_STREAMS) {
      this.#open.delete(oldest);
      end(oldest, () => oldest.connection.sendWithoutId("replaced", "{}"));
    }
    const connection = this.#connections.open(response, memory.account(holderOf(request, principal)), HEADERS);
    const stream = { response, connection, principal, nextSecond: 0, requestCount: 0, logLineCount: 0, generations: undefined };
    this.#open.add(stream);
    connection.onClosed = () => this.#onClosed(stream);
    this.#send(stream, this.#readState());
    if (this.#open.size === 1) this.#updates.set(nowMs() + UPDATE_INTERVAL_MS);
  }

  endAllOf(owner: Principal): void {
    for (const { connection, principal } of this.#open) if (principal === owner) connection.cutOff();
  }

  /** Sends the last updates, ends all streams, and rejects new ones. */
  close(): void {
    this.#isClosed = true;
    // The sidecar must stop even after a defect.
    for (const stream of this.#open) end(stream, () => this.#context.defects.guard("page", () => this.#send(stream, this.#readState())));
  }

  #sendAll(nowMs: number): void {
    this.#updates.set(nowMs + UPDATE_INTERVAL_MS);
    const state = this.#readState();
    for (const stream of this.#open) this.#send(stream, state);
  }

  /** Sends the new history, unless the last update is still unread. The next update then has what is still kept. */
  #send(stream: PageStream, state: PageState): void {
    if (stream.generations !== undefined && stream.response.writableLength > 0) return;
    const { requests: history, generations, log, currentSecond } = this.#activity;
    const { requests } = history;
    const update: PageUpdate = {
      state,
      seconds: this.#activity.secondsBetween(stream.nextSecond, currentSecond),
      requests: requests.after(stream.requestCount).map(pageRequest),
      logLines: log.lines.after(stream.logLineCount),
      generations: generations === stream.generations ? undefined : generations,
    };
    stream.nextSecond = currentSecond;
    stream.requestCount = requests.count;
    stream.logLineCount = log.lines.count;
    stream.generations = generations;
    stream.connection.sendWithoutId("update", JSON.stringify(update, this.#context.secrets.replacer));
  }

  #onClosed(stream: PageStream): void {
    this.#open.delete(stream);
    if (this.#open.size === 0) this.#updates.clear();
  }
}

/** Sends the last event, and ends the stream. A client that has not read the one before may never do so. */
function end({ response, connection }: PageStream, sendLast: () => void): void {
  const isUnread = response.writableLength > 0;
  sendLast();
  connection.end(isUnread);
}
