import { readdirSync, readFileSync } from "node:fs";
import type { ServerResponse } from "node:http";
import { fileURLToPath } from "node:url";
import { gunzipSync } from "node:zlib";
import { maskArgs, maskCommand } from "../config/secret-file.ts";
import type { Context } from "../context.ts";
import { SidecarError } from "../mcp/errors.ts";
import { itemsAfter } from "../observe/record.ts";
import { shuttingDown } from "../server/failures.ts";
import type { Principal } from "../session/session.ts";
import { Timer } from "../timers.ts";
import { describeEndpoint } from "./app.ts";
import { type SseConnection, SseConnections } from "./event-streams.ts";
import { describeExit, laneLoads, type Status } from "./health.ts";
import type { PageState, PageUpdate } from "./page-update.ts";
import { pageRequest, type RecentActivity } from "./recent.ts";
import { acceptsGzip, acceptsHtml, holderOf, reject, type Route, sendError } from "./response.ts";

const FOLDER = fileURLToPath(new URL(import.meta.url.endsWith(".ts") ? "../../dist/page/" : "page/", import.meta.url));
const INDEX = "index.html";
const SUFFIX = ".gz";

const CONTENT_TYPES: ReadonlyMap<string, string> = new Map([
  ["html", "text/html; charset=utf-8"],
  ["js", "text/javascript; charset=utf-8"],
  ["css", "text/css; charset=utf-8"],
]);

/** Results of tools have images as `data:` URLs. Trusted types keep scripts from turning text into code or markup. */
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

/** Responses share the bytes, so unread ones take no more memory. */
function readFiles(): ReadonlyMap<string, { readonly compressed: Buffer; readonly plain: Buffer }> {
  const names = readdirSync(FOLDER).filter((name) => name.endsWith(SUFFIX));
  return new Map(
    names.map((name) => {
      const compressed = readFileSync(`${FOLDER}${name}`);
      return [name.slice(0, -SUFFIX.length), { compressed, plain: gunzipSync(compressed) }];
    }),
  );
}

function createFileRoutes(context: Context): Readonly<Record<"page" | "pageFile", Route>> {
  let files: ReturnType<typeof readFiles> | undefined;
  const send = (response: ServerResponse, name: string, cacheControl: string): void => {
    const file = (files ??= readFiles()).get(name);
    if (file === undefined) {
      const message = "The page has no such file. If the sidecar was updated, load the page again.";
      return reject(response, new SidecarError("NOT_FOUND", message));
    }
    const isCompressed = acceptsGzip(response.req);
    const content = isCompressed ? file.compressed : file.plain;
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
  return {
    page: (request, response) => {
      // A cached page could name scripts of an older build.
      if (acceptsHtml(request)) return send(response, INDEX, "no-cache");
      // An MCP client may have the URL without its path.
      const endpoint = describeEndpoint(endpointPath(context));
      reject(response, new SidecarError("NOT_FOUND", `There is only a page for browsers at /; ${endpoint}.`));
    },
    pageFile: (request, response) => {
      const name = /^\/page\/(?<name>[\w.-]+)\/?(?:\?|$)/.exec(request.url ?? "")?.groups?.["name"] ?? "";
      // The names of all other files have a hash of their content.
      send(response, name === INDEX ? "" : name, "public, max-age=31536000, immutable");
    },
  };
}

/** @returns undefined if it has another address than the page. */
function endpointPath({ config }: Context): string | undefined {
  return config.adminAddr === undefined ? config.path : undefined;
}

function pageState(context: Context, status: Status): PageState {
  const { config } = context;
  return {
    ...status,
    lanes: laneLoads(status),
    command: [maskCommand(config.command), ...maskArgs(config.args)],
    endpointPath: endpointPath(context) ?? null,
    isIsolated: config.isolation === "session",
    hasOwnServerForQuestions: config.isolation === "auto" && status.stateless?.serverEra !== "modern",
  };
}

/** Each costs one serialisation per second. A further one replaces the oldest. */
const MAX_STREAMS = 8;
const UPDATE_INTERVAL_MS = 1000;
/** The stream is for `fetch` only. */
const HEADERS = { "X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY" };

interface PageStream {
  readonly response: ServerResponse;
  readonly connection: SseConnection;
  readonly principal: Principal | undefined;
  nextSecond: number;
  requestCount: number;
  logLineCount: number;
  generations: RecentActivity["generations"] | undefined;
}

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
    this.#updates = new Timer(context, (nowMs) => this.#sendAll(nowMs));
    this.#readState = () => pageState(context, status());
    this.#connections = new SseConnections(context);
    this.routes = {
      // Before the files, whose path would match too.
      pageEvents: (_request, response, principal) => this.#openStream(response, principal),
      ...createFileRoutes(context),
    };
  }

  #openStream(response: ServerResponse, principal: Principal | undefined): void {
    const { memory, nowMs } = this.#context;
    // A stream that opens now would delay the end of the sidecar.
    if (this.#isClosed) return sendError(response, shuttingDown());
    const [oldest] = this.#open;
    // A client that never reads must not keep people out.
    if (oldest !== undefined && this.#open.size >= MAX_STREAMS) {
      this.#open.delete(oldest);
      end(oldest, () => oldest.connection.send(undefined, "{}", "replaced"));
    }
    const connection = this.#connections.open(response, memory.account(holderOf(response.req, principal)), HEADERS);
    const stream = { response, connection, principal, nextSecond: 0, requestCount: 0, logLineCount: 0, generations: undefined };
    this.#open.add(stream);
    connection.onClosed = () => {
      this.#open.delete(stream);
      if (this.#open.size === 0) this.#updates.clear();
    };
    this.#send(stream, this.#readState());
    if (this.#open.size === 1) this.#updates.set(nowMs() + UPDATE_INTERVAL_MS);
  }

  endAllOf(owner: Principal): void {
    for (const { connection, principal } of this.#open) if (principal === owner) connection.cutOff();
  }

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

  /** Skipped while the last update is unread: the next one has what is still kept. */
  #send(stream: PageStream, state: PageState): void {
    if (stream.generations !== undefined && stream.response.writableLength > 0) return;
    const { requests: history, generations, log, currentSecond } = this.#activity;
    const update: PageUpdate = {
      state,
      seconds: this.#activity.secondsBetween(stream.nextSecond, currentSecond),
      requests: itemsAfter(history.requests, history.count, stream.requestCount).map(pageRequest),
      logLines: itemsAfter(log.lines, log.count, stream.logLineCount),
      generations: generations === stream.generations ? undefined : generations.map((each) => ({ ...each, exit: describeExit(each.exit) })),
    };
    stream.nextSecond = currentSecond;
    stream.requestCount = history.count;
    stream.logLineCount = log.count;
    stream.generations = generations;
    stream.connection.send(undefined, JSON.stringify(update, this.#context.secrets.replacer), "update");
  }
}

/** A client with unread output may never read again. */
function end({ response, connection }: PageStream, sendLast: () => void): void {
  const isUnread = response.writableLength > 0;
  sendLast();
  connection.end(isUnread);
}
