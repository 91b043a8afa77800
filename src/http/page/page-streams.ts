import type { ServerResponse } from "node:http";
import { shuttingDown } from "../../lane/failures.ts";
import type { MemoryBudget } from "../../memory/memory-budget.ts";
import type { Defects } from "../../observability/defects.ts";
import type { Principal } from "../../sessions/principal.ts";
import { sendError } from "../json-response.ts";
import type { SseConnection, SseConnections } from "../output/sse-connection.ts";
import { discardBody } from "../reject.ts";
import { holderOf, type PrincipalRoute } from "../route.ts";
import type { PageGeneration, PageRequest, PageState, PageUpdate } from "./page-update.ts";
import type { RecentActivity, RecentRequest } from "./recent-activity.ts";

/** Each open page costs one serialisation per second. A further one replaces the oldest. */
const MAX_STREAMS = 8;
const UPDATE_INTERVAL_MS = 1000;
/** The stream is for `fetch` only. */
const HEADERS = { "X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY" };

export interface PageStreamsOptions {
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
function end({ response, connection }: PageStream, send: () => void): void {
  const isUnread = response.writableLength > 0;
  send();
  connection.end(isUnread);
}
