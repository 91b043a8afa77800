import type { Counters } from "../../observability/counters.ts";
import type { Defects } from "../../observability/defects.ts";
import type { Log } from "../../observability/log.ts";
import { LogLimiter } from "../../observability/log-limiter.ts";
import type { SidecarError } from "../../errors.ts";
import type { MemoryAccount, MemoryHolder } from "../../memory/memory-budget.ts";
import type { RequestMessage } from "../../protocol/message.ts";
import { RateLimit } from "../../timing/rate-limit.ts";
import type { EventLog } from "../../sessions/event-log.ts";
import type { Exchange } from "../../sessions/exchange.ts";
import { type Principal, Session } from "../../sessions/session.ts";
import type { SessionStore } from "../../sessions/session-store.ts";
import { SessionStreams } from "../../sessions/session-streams.ts";
import { internalError, sessionRateExceeded, sharedServerOutdated, tooManySessions } from "../failures.ts";
import type { Lanes } from "../lanes.ts";
import type { InitializeRefusal } from "./initialize-requests.ts";
import type { PooledLane } from "../pooled-lane.ts";

export interface SessionOpenerOptions {
  readonly lanes: Lanes;
  readonly sessions: SessionStore;
  readonly eventLog: EventLog;
  /** Undefined means no limit. */
  readonly sessionsPerMinute: number | undefined;
  /** Called at the end of each session. */
  readonly onSessionEnd: ((protocolVersion: string, durationMs: number) => void) | undefined;
  readonly counters: Counters;
  readonly log: Log;
  readonly defects: Defects;
  readonly nowMs: () => number;
}

/** The client of a new session. */
interface NewSession {
  readonly owner?: Principal | undefined;
  readonly memory: MemoryAccount;
  /** The default is the streams of Streamable HTTP. */
  readonly streams?: SessionStreams;
}

/** Opens sessions: gets a lane for each `initialize`, and a session on it as soon as the server has answered. */
export class SessionOpener {
  readonly #options: SessionOpenerOptions;
  readonly #rate: RateLimit | undefined;
  readonly #limiter: LogLimiter;

  constructor(options: SessionOpenerOptions) {
    this.#options = options;
    this.#limiter = new LogLimiter(options.nowMs);
    this.#rate = options.sessionsPerMinute === undefined ? undefined : new RateLimit(options.sessionsPerMinute);
  }

  /** @param onOpen called with the new session, before the response is sent. */
  initialize(
    exchange: Exchange,
    request: RequestMessage,
    onOpen: (session: Session) => void,
    { owner, memory, streams = new SessionStreams(this.#options.eventLog.forClient(memory)) }: NewSession,
  ): void {
    this.#begin(exchange, request, onOpen, { owner, memory, streams });
  }

  #begin(
    exchange: Exchange,
    request: RequestMessage,
    onOpen: (session: Session) => void,
    client: Required<NewSession>,
    isFirst = true,
  ): void {
    const { memory, streams } = client;
    const { lanes, counters } = this.#options;
    // A session takes its place when it is opened. Without one, no server is started and nothing is queued.
    const refusal = lanes.refusal(request) ?? this.#roomRefusal(memory.holder) ?? (isFirst ? this.#rateRefusal() : undefined);
    if (refusal !== undefined) {
      if (isFirst) counters.countRefusal(refusal.code);
      else counters.countEnding(refusal.code);
      exchange.fail(refusal);
      return;
    }
    const pooled = lanes.acquire(request, { streams, memory });
    const { lane } = pooled.supervised;
    lane.initialize({
      exchange,
      request,
      memory,
      open: (protocolVersion) => {
        const session = this.#open(protocolVersion, request, pooled, client);
        if (session !== undefined) onOpen(session);
        return session === undefined ? tooManySessions(this.#options.sessions.maxSessions) : undefined;
      },
      isRepeated: !isFirst,
      onRefused: (answer) =>
        this.#onRefused(exchange, request, memory, answer, () => this.#begin(exchange, request, onOpen, client, false)),
      onFailed: () => pooled.release(),
    });
  }

  /** It may be a server without sessions, which the shared process is about to show. Then all clients share that one. */
  #onRefused(exchange: Exchange, request: RequestMessage, memory: MemoryAccount, refusal: InitializeRefusal, begin: () => void): void {
    const { lanes, counters, defects } = this.#options;
    const onKnown = (): void => {
      if (!lanes.isPrivate(request)) begin();
      // The shared process is of another revision than the processes that start now. It will be like them when it has restarted.
      else if (refusal.refusesRevision && lanes.mayShare) this.#failOutdated(refusal);
      else refusal.answer();
    };
    const held = {
      acceptedAtMs: exchange.acceptedAtMs,
      onDisconnect: (listener: () => void) =>
        exchange.onDisconnect(() => {
          listener();
          counters.countEnding("unread");
        }),
    };
    lanes.whenKnown(held, request, memory, () => defects.guard("session start", onKnown, () => refusal.fail(internalError(false))));
  }

  #failOutdated(refusal: InitializeRefusal): void {
    const { log } = this.#options;
    const reason = "a server that started now refuses initialize; restart the sidecar, so that all are of one version";
    if (this.#limiter.allows()) log.warn({ reason }, "shared mcp server outdated");
    refusal.fail(sharedServerOutdated());
  }

  #roomRefusal(holder: MemoryHolder): SidecarError | undefined {
    const { sessions } = this.#options;
    return sessions.hasRoomFor(holder) ? undefined : tooManySessions(sessions.maxSessions);
  }

  #rateRefusal(): SidecarError | undefined {
    const { sessionsPerMinute = 0, nowMs } = this.#options;
    const waitMs = this.#rate?.take(nowMs());
    return waitMs === undefined ? undefined : sessionRateExceeded(sessionsPerMinute, waitMs);
  }

  /** @returns undefined if there is no room for another session. */
  #open(protocolVersion: string, initialize: RequestMessage, pooled: PooledLane, client: Required<NewSession>): Session | undefined {
    const { owner } = client;
    const { sessions, onSessionEnd, defects, nowMs } = this.#options;
    const { lane } = pooled.supervised;
    const startedAtMs = nowMs();
    const onEnd = (): void => {
      pooled.release(session);
      onSessionEnd?.(protocolVersion, nowMs() - startedAtMs);
    };
    const session = new Session({ protocolVersion, lane, ...client, nowMs: startedAtMs, onEnd });
    if (!sessions.add(session)) return undefined;
    pooled.open(session, initialize);
    // The token was revoked while the client waited for its server. The session ends as soon as it exists.
    if (owner?.isRevoked === true) queueMicrotask(() => defects.guard("session end", () => sessions.end(session)));
    return session;
  }
}
