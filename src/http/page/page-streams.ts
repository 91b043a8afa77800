import type { ServerResponse } from "node:http";
import { SidecarError } from "../../errors.ts";
import type { MemoryBudget } from "../../memory/memory-budget.ts";
import type { Defects } from "../../observability/defects.ts";
import type { Principal } from "../../sessions/session.ts";
import { sendError } from "../json-response.ts";
import type { SseConnection, SseConnections } from "../output/sse-connection.ts";
import { discardBody } from "../reject.ts";
import { holderOf, type PrincipalRoute } from "../route.ts";
import type { PageRequest, PageState, PageUpdate } from "./page-update.ts";
import type { RecentActivity, RecentRequest } from "./recent-activity.ts";

/** Each open page costs a rendering a second. */
const MAX_STREAMS = 8;
const UPDATE_INTERVAL_MS = 1000;
const RETRY_AFTER_S = 10;

export interface PageStreamsOptions {
  readonly activity: RecentActivity;
  readonly readState: () => PageState;
  readonly connections: Pick<SseConnections, "open">;
  readonly memory: Pick<MemoryBudget, "account">;
  /** A replacer for `JSON.stringify` that masks secrets. */
  readonly replacer: (key: string, value: unknown) => unknown;
  readonly defects: Pick<Defects, "guard">;
}

/** A page that somebody looks at, and the history that it has. */
interface PageStream {
  readonly response: ServerResponse;
  readonly connection: SseConnection;
  readonly principal: Principal | undefined;
  hasBegun: boolean;
  nextSecond: number;
  requestCount: number;
  logLineCount: number;
  generationChanges: number;
}

/** The event streams of open pages: the state each second, with all that is new. */
export class PageStreams {
  readonly #options: PageStreamsOptions;
  readonly #open = new Set<PageStream>();
  #timer: NodeJS.Timeout | undefined;

  constructor(options: PageStreamsOptions) {
    this.#options = options;
  }

  readonly route: PrincipalRoute = (request, response, principal) => {
    discardBody(request);
    if (this.#open.size >= MAX_STREAMS) {
      const message = `${MAX_STREAMS} pages are open, which is the most; close one of them.`;
      return sendError(response, new SidecarError("OVERLOADED", message, { retryAfterSeconds: RETRY_AFTER_S }));
    }
    const connection = this.#options.connections.open(response, this.#options.memory.account(holderOf(request, principal)));
    const stream = {
      response,
      connection,
      principal,
      hasBegun: false,
      nextSecond: 0,
      requestCount: 0,
      logLineCount: 0,
      generationChanges: -1,
    };
    this.#open.add(stream);
    connection.onClosed = () => this.#onClosed(stream);
    this.#send(stream, this.#options.readState());
    this.#timer ??= setInterval(() => this.#options.defects.guard("page", () => this.#sendAll()), UPDATE_INTERVAL_MS).unref();
  };

  /** Ends the streams of a principal. */
  endAllOf(owner: Principal): void {
    for (const { connection, principal } of this.#open) if (principal === owner) connection.cutOff();
  }

  /** Sends the last updates, and ends all streams. */
  close(): void {
    this.#sendAll();
    for (const { connection } of this.#open) connection.end();
  }

  #sendAll(): void {
    const state = this.#options.readState();
    for (const stream of this.#open) this.#send(stream, state);
  }

  /** Sends all that is new, unless the last update is not read yet. The history has a limit, so the next one does too. */
  #send(stream: PageStream, state: PageState): void {
    if (stream.hasBegun && stream.response.writableLength > 0) return;
    stream.hasBegun = true;
    const { activity, replacer } = this.#options;
    const { requests, rate, generations, log } = activity;
    const update: PageUpdate = {
      state,
      seconds: rate.since(stream.nextSecond),
      requests: requests.after(stream.requestCount).map(pageRequest),
      logLines: log.lines.after(stream.logLineCount),
      generations: generations.changes === stream.generationChanges ? undefined : generations.all,
    };
    stream.nextSecond = rate.current;
    stream.requestCount = requests.count;
    stream.logLineCount = log.lines.count;
    stream.generationChanges = generations.changes;
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
