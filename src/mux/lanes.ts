import type { Counters } from "../counters.ts";
import { Defects } from "../defects.ts";
import { SidecarError } from "../errors.ts";
import { type JsonObject, type RequestMessage, Slot } from "../jsonrpc/message.ts";
import type { Log } from "../observability/log.ts";
import { RateLimit } from "../rate-limit.ts";
import { DeadlineSweep } from "./deadline-sweep.ts";
import type { EventLog } from "./event-log.ts";
import type { Exchange } from "./exchange.ts";
import { noPrivateServerLeft, shuttingDown, tooManySessions } from "./failures.ts";
import type { Isolation } from "../isolation.ts";
import { addLoads, type LaneLoad } from "./lane-load.ts";
import type { Lane } from "./lane.ts";
import { type Principal, Session, type SessionLane } from "./session.ts";
import type { SessionStore } from "./session-store.ts";
import { SessionStreams } from "./session-streams.ts";

/** What makes a client one that a server may ask: then it has to be clear who is asked. */
const ASKABLE_CAPABILITIES = [Slot.sampling, Slot.elicitation, Slot.roots];

/** The `initialize` of a client with a server of its own is kept, for the next start of that server. */
const MAX_KEPT_BYTES = 256 * 1024;

function initializeTooLarge(): SidecarError {
  const message = `The initialize of a client that needs its own server process has more than ${MAX_KEPT_BYTES} bytes. It was not sent.`;
  return new SidecarError("INVALID_REQUEST", message, { limitBytes: MAX_KEPT_BYTES });
}

/** A lane, and the way into it that sessions take: the lane itself, or what guards it. */
export interface LaneEntry {
  readonly lane: Lane;
  readonly entry: SessionLane;
  /** The names that clients may know, of the tools of a server; undefined where nothing is hidden. */
  readonly visibleNames?: (tools: readonly JsonObject[]) => ReadonlySet<string>;
}

/** A lane of one client, with the server process under it. */
export interface PrivateLane extends LaneEntry {
  /** Starts the server. Settles when it has ended for good; never rejects. */
  run(): Promise<void>;
  stop(): Promise<void>;
  kill(): void;
}

export interface LanesOptions {
  readonly shared: LaneEntry;
  /** Makes a lane whose server is initialized as this client asks for; `onSessionEnd` is called when its session is over. */
  readonly createPrivate: (initialize: RequestMessage, streams: SessionStreams, onSessionEnd: () => void) => PrivateLane;
  readonly sessions: SessionStore;
  readonly eventLog: EventLog;
  readonly isolation: Isolation;
  readonly maxPrivateServers: number;
  /** Undefined for any number. */
  readonly sessionsPerMinute: number | undefined;
  /** After how long without use a session with a server of its own ends. */
  readonly idleTimeoutMs: number;
  readonly counters: Counters;
  readonly log: Log;
  readonly nowMs: () => number;
}

/** For whom a session is opened. */
export interface SessionTerms {
  readonly owner?: Principal | undefined;
  /** Where it cannot have those of Streamable HTTP. */
  readonly streams?: SessionStreams;
}

/** All lanes: the shared one, and one for each client that needs its own. */
export class Lanes {
  readonly #options: LanesOptions;
  /** Also those whose server is still ending: it is a process as long as it lives. */
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

  /** @param open is given the session once there is one, before the exchange is answered. */
  initialize(
    exchange: Exchange,
    request: RequestMessage,
    open: (session: Session) => void,
    { owner, streams = new SessionStreams(this.#options.eventLog) }: SessionTerms = {},
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
    const end = (): void => void this.#end(own);
    const own = this.#options.createPrivate(request, streams, end);
    const { lane } = own;
    this.#private.set(own, undefined);
    void own.run().then(end);
    const onOpen = (protocolVersion: string): void => {
      const session = this.#openSession(protocolVersion, own, streams, owner);
      this.#private.set(own, session);
      this.#idle.watch(session.lastUsedAtMs + this.#options.idleTimeoutMs);
      open(session);
    };
    lane.initialize(exchange, request, onOpen, end);
  }

  /** Refuses new requests, ends GET streams, and resolves when the last request in flight is answered. */
  async drain(): Promise<void> {
    this.#isDraining = true;
    for (const { streams } of this.#options.sessions.values()) streams.endStandalone();
    await Promise.all(this.#lanes().map((lane) => lane.drain()));
  }

  /** Answers everything that is still in flight. */
  close(): void {
    this.#idle.close();
    for (const lane of this.#lanes()) lane.close();
  }

  /** Ends the servers of all private lanes. Bounded. */
  async stopPrivate(): Promise<void> {
    await Promise.all([...this.#private.keys()].map((own) => own.stop()));
  }

  kill(): void {
    for (const own of this.#private.keys()) own.kill();
  }

  #needsOwnServer({ outline }: RequestMessage): boolean {
    const { isolation } = this.#options;
    if (isolation !== "auto") return isolation === "session";
    return ASKABLE_CAPABILITIES.some((slot) => outline.has(slot));
  }

  /** Why no session can be opened now, if none can. */
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
    // It waited for its server, and its token was taken back meanwhile; it ends as soon as there is a session to end.
    if (owner?.isRevoked === true) queueMicrotask(() => this.#defects.guard("session end", () => this.#options.sessions.end(session)));
    return session;
  }

  async #end(own: PrivateLane): Promise<void> {
    if (this.#ending.has(own)) return;
    this.#ending.add(own);
    const session = this.#private.get(own);
    // It has one where the server ended by itself; nothing would ever answer in it again.
    if (session !== undefined) this.#options.sessions.end(session);
    own.lane.close();
    await own.stop();
    this.#private.delete(own);
    this.#ending.delete(own);
  }

  #endIdle(nowMs: number): number {
    let nextMs = Number.POSITIVE_INFINITY;
    for (const [own, session] of this.#private) {
      if (session === undefined || this.#ending.has(own)) continue;
      // A question to a client that is not there does not count: a server that goes on asking would live for ever.
      if (session.isInUse) session.lastUsedAtMs = nowMs;
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
