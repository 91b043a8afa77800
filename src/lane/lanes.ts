import type { Counters } from "../observability/counters.ts";
import { Defects } from "../observability/defects.ts";
import { SidecarError } from "../errors.ts";
import { type JsonObject, type RequestMessage, Slot } from "../protocol/message.ts";
import type { Log } from "../observability/log.ts";
import { RateLimit } from "../timing/rate-limit.ts";
import { DeadlineSweep } from "../timing/deadline-sweep.ts";
import type { EventLog } from "../sessions/event-log.ts";
import type { Exchange } from "../sessions/exchange.ts";
import { noPrivateServerLeft, shuttingDown, tooManySessions } from "./failures.ts";
import type { Isolation } from "./isolation.ts";
import { addLoads, type LaneLoad } from "./lane-load.ts";
import type { Lane } from "./lane.ts";
import { type Principal, Session, type SessionLane } from "../sessions/session.ts";
import type { SessionStore } from "../sessions/session-store.ts";
import { SessionStreams } from "../sessions/session-streams.ts";

/** The capabilities that let a server send requests to its client. Such a server must have exactly one client. */
const ASKABLE_CAPABILITIES = [Slot.sampling, Slot.elicitation, Slot.roots];

/** The limit for the `initialize` of a client with a private server. It is kept in memory for the next start of that server. */
const MAX_KEPT_BYTES = 256 * 1024;

function initializeTooLarge(): SidecarError {
  const message = `The initialize of a client that needs its own server process has more than ${MAX_KEPT_BYTES} bytes. It was not sent.`;
  return new SidecarError("INVALID_REQUEST", message, { limitBytes: MAX_KEPT_BYTES });
}

/** A lane and its entry for sessions: the lane itself, or the tool policy in front of it. */
export interface LaneEntry {
  readonly lane: Lane;
  readonly entry: SessionLane;
  /** Returns the names of the tools that are visible to clients; undefined if no tool is hidden. */
  readonly visibleNames?: (tools: readonly JsonObject[]) => ReadonlySet<string>;
}

/** The lane of one client, and its server process. */
export interface PrivateLane extends LaneEntry {
  /** Starts and supervises the server. Resolves when supervision has ended; never rejects. */
  run(): Promise<void>;
  stop(): Promise<void>;
  kill(): void;
}

export interface LanesOptions {
  readonly shared: LaneEntry;
  /** Creates a lane whose server is initialized with this request. `onSessionEnd` is called when its session ends. */
  readonly createPrivate: (initialize: RequestMessage, streams: SessionStreams, onSessionEnd: () => void) => PrivateLane;
  readonly sessions: SessionStore;
  readonly eventLog: EventLog;
  readonly isolation: Isolation;
  readonly maxPrivateServers: number;
  /** Undefined means no limit. */
  readonly sessionsPerMinute: number | undefined;
  /** The time without use after which a session with a private server ends. */
  readonly idleTimeoutMs: number;
  readonly counters: Counters;
  readonly log: Log;
  readonly nowMs: () => number;
}

/** The owner and the streams of a new session. */
export interface SessionOptions {
  readonly owner?: Principal | undefined;
  /** The default is the streams of Streamable HTTP. */
  readonly streams?: SessionStreams;
}

/** All lanes: the shared lane, and a private lane for each client that needs its own server. */
export class Lanes {
  readonly #options: LanesOptions;
  /** The private lanes and their sessions. Includes lanes whose server is still stopping: its process counts until it has exited. */
  readonly #private = new Map<PrivateLane, Session | undefined>();
  readonly #ending = new Set<PrivateLane>();
  readonly #defects: Defects;
  readonly #idle: DeadlineSweep;
  readonly #sessionRate: RateLimit | undefined;
  #isDraining = false;

  constructor(options: LanesOptions) {
    this.#options = options;
    this.#defects = new Defects(options.log, options.counters);
    this.#idle = new DeadlineSweep(options.nowMs, this.#defects, (nowMs) => this.#endIdle(nowMs));
    this.#sessionRate = options.sessionsPerMinute === undefined ? undefined : new RateLimit(options.sessionsPerMinute);
  }

  get load(): { readonly shared: LaneLoad; readonly private: LaneLoad & { readonly servers: number } } {
    const loads = this.#private.keys().map(({ lane }) => lane.load);
    return { shared: this.#options.shared.lane.load, private: { servers: this.#private.size, ...addLoads(loads) } };
  }

  /** @param open called with the new session, before the response is sent. */
  initialize(
    exchange: Exchange,
    request: RequestMessage,
    open: (session: Session) => void,
    { owner, streams = new SessionStreams(this.#options.eventLog) }: SessionOptions = {},
  ): void {
    const { shared } = this.#options;
    const needsOwnServer = this.#needsOwnServer(request);
    const refusal =
      needsOwnServer && Buffer.byteLength(request.text) > MAX_KEPT_BYTES ? initializeTooLarge() : this.#refusal(needsOwnServer);
    if (refusal !== undefined) return this.#refuse(exchange, refusal);
    if (!needsOwnServer) {
      shared.lane.initialize(exchange, request, (protocolVersion) => open(this.#openSession(protocolVersion, shared, streams, owner)));
      return;
    }
    const end = (): void => void this.#end(privateLane);
    const privateLane = this.#options.createPrivate(request, streams, end);
    const { lane } = privateLane;
    this.#private.set(privateLane, undefined);
    void privateLane.run().then(end);
    const onOpen = (protocolVersion: string): void => {
      const session = this.#openSession(protocolVersion, privateLane, streams, owner);
      this.#private.set(privateLane, session);
      this.#idle.watch(session.lastUsedAtMs + this.#options.idleTimeoutMs);
      open(session);
    };
    lane.initialize(exchange, request, onOpen, end);
  }

  /** Rejects new requests, ends GET streams, and resolves when the last request in flight has ended. */
  async drain(): Promise<void> {
    this.#isDraining = true;
    for (const { streams } of this.#options.sessions.values()) streams.endStandalone();
    await Promise.all(this.#lanes().map((lane) => lane.drain()));
  }

  /** Fails all requests that are in flight or queued. */
  close(): void {
    this.#idle.close();
    for (const lane of this.#lanes()) lane.close();
  }

  /** Stops the servers of all private lanes. Takes bounded time. */
  async stopPrivate(): Promise<void> {
    await Promise.all([...this.#private.keys()].map((privateLane) => privateLane.stop()));
  }

  kill(): void {
    for (const privateLane of this.#private.keys()) privateLane.kill();
  }

  #needsOwnServer({ outline }: RequestMessage): boolean {
    const { isolation } = this.#options;
    if (isolation !== "auto") return isolation === "session";
    return ASKABLE_CAPABILITIES.some((slot) => outline.has(slot));
  }

  /** Returns the error if no session can be opened now. */
  #refusal(needsOwnServer: boolean): SidecarError | undefined {
    const { maxPrivateServers, sessionsPerMinute = 0, nowMs } = this.#options;
    if (this.#isDraining) return shuttingDown("initialize", false);
    if (needsOwnServer && this.#private.size >= maxPrivateServers) return this.#noServerLeft();
    const waitMs = this.#sessionRate?.take(nowMs());
    return waitMs === undefined ? undefined : tooManySessions(sessionsPerMinute, waitMs);
  }

  #openSession(protocolVersion: string, { lane, entry }: LaneEntry, streams: SessionStreams, owner: Principal | undefined): Session {
    const session = new Session(protocolVersion, entry, streams, this.#options.nowMs(), owner);
    this.#options.sessions.add(session);
    lane.addSession(session);
    // The token was revoked while the client waited for its server. The session ends as soon as it exists.
    if (owner?.isRevoked === true) queueMicrotask(() => this.#defects.guard("session end", () => this.#options.sessions.end(session)));
    return session;
  }

  async #end(privateLane: PrivateLane): Promise<void> {
    if (this.#ending.has(privateLane)) return;
    this.#ending.add(privateLane);
    const session = this.#private.get(privateLane);
    // The lane still has a session if its server ended by itself. That session can never get another response.
    if (session !== undefined) this.#options.sessions.end(session);
    privateLane.lane.close();
    await privateLane.stop();
    this.#private.delete(privateLane);
    this.#ending.delete(privateLane);
  }

  #endIdle(nowMs: number): number {
    let nextMs = Number.POSITIVE_INFINITY;
    for (const [privateLane, session] of this.#private) {
      if (session === undefined || this.#ending.has(privateLane)) continue;
      // A request to a disconnected client does not count as use: a server that keeps sending requests would never stop.
      if (session.isInUse) session.touch(nowMs);
      const dueAtMs = session.lastUsedAtMs + this.#options.idleTimeoutMs;
      if (dueAtMs > nowMs) nextMs = Math.min(nextMs, dueAtMs);
      else {
        this.#options.log.info({ reason: "idle" }, "session ended");
        this.#options.sessions.end(session);
      }
    }
    return nextMs;
  }

  #refuse(exchange: Exchange, error: SidecarError): void {
    this.#options.counters.countRefusal(error.code);
    exchange.fail(error);
  }

  #noServerLeft(): SidecarError {
    const { maxPrivateServers, idleTimeoutMs, nowMs } = this.#options;
    let freeInMs = this.#ending.size > 0 ? 0 : idleTimeoutMs;
    for (const session of this.#private.values()) {
      if (session !== undefined) freeInMs = Math.min(freeInMs, session.lastUsedAtMs + idleTimeoutMs - nowMs());
    }
    return noPrivateServerLeft(maxPrivateServers, freeInMs);
  }

  #lanes(): Lane[] {
    return [this.#options.shared.lane, ...[...this.#private.keys()].map(({ lane }) => lane)];
  }
}
