import type { KeyObject } from "node:crypto";
import type { SidecarError } from "../mcp/errors.ts";
import type { NotificationMessage, RequestMessage, ResponseMessage } from "../mcp/message.ts";
import type { MemoryAccount } from "../memory.ts";
import type { Reply } from "./reply.ts";
import type { SessionStreams } from "./streams.ts";

/**
 * The sender of requests: a session, or a client without one (a principal, or without tokens a peer address). The object is the key for
 * fairness, rates and limits. A lane may keep state for it until `endCaller`.
 */
export class Caller {
  readonly memory: MemoryAccount;
  callsInFlight = 0;

  constructor(memory: MemoryAccount) {
    this.memory = memory;
  }

  beginCall(): void {
    this.callsInFlight++;
  }

  endCall(_nowMs: number): void {
    this.callsInFlight--;
  }

  /** Sends a message that belongs to no request in flight. Undefined without a stream for it. */
  deliver?(text: string): void;
  /** Does nothing if the same text is waiting already. */
  deliverOnce?(text: string): void;
  /**
   * A restarted server is ready.
   *
   * @param initializeResult undefined if it has no sessions now.
   */
  onRestarted?(initializeResult: string | undefined): void;
}

/** There is one object for each auth token, without the token itself. */
export interface Principal {
  readonly isRevoked: boolean;
  /** Shown in the log. It has no part of the token. */
  readonly name: string;
  /** The same in all replicas. It must not be shown: it would confirm guesses of a short token. */
  readonly fingerprint: string;
  /** Derived from the token; undefined if that is too short. */
  readonly sessionKey: KeyObject | undefined;
}

export interface SessionLane {
  /** Finishes the reply with the server's response, or with an error. */
  request(caller: Caller, reply: Reply, request: RequestMessage): void;
  notify(session: Session, notification: NotificationMessage): SidecarError | undefined;
  answer(session: Session, response: ResponseMessage): SidecarError | undefined;
  /** Lists may have changed. The session is told what the server would tell it. */
  announceLists(session: Session): void;
  /** Cancels its requests and removes its state. Must be called at the end of each caller. */
  endCaller(caller: Caller): void;
}

/** A session as its id tells of it. One that is not open here may be taken up. */
export interface KnownSession {
  readonly id: string;
  readonly owner: Principal | undefined;
  readonly protocolVersion: string;
  /** Made from the claims of the id: the client's own went to another replica. */
  readonly initialize: RequestMessage;
}

/** `initialize` has opened it, here or at another replica. */
export class Session extends Caller {
  readonly id: string;
  readonly protocolVersion: string;
  readonly lane: SessionLane;
  readonly streams: SessionStreams;
  /** The only principal that may use it; undefined if no token is required. */
  readonly owner: Principal | undefined;
  onUsed: (() => void) | undefined;
  /** Called once. @param isOver false if the session may be taken up again. */
  onEnd: ((isOver: boolean) => void) | undefined;
  /** The time of the last message, the last end of a request, or the last close of a stream. */
  lastUsedAtMs: number;
  hasCalled = false;
  hasEnded = false;
  /** Its server ends: its requests wait until it is evicted, and then go to another one. */
  isMoving = false;
  /** HTTP requests that arrive, or whose response is not read. An `Exchange` counts them. */
  openRequests = 0;
  #mustHearOfLists: boolean;

  constructor({ id, owner, protocolVersion }: Omit<KnownSession, "initialize">, lane: SessionLane, streams: SessionStreams, nowMs: number) {
    super(streams.memory);
    [this.id, this.owner, this.protocolVersion] = [id, owner, protocolVersion];
    [this.lane, this.streams] = [lane, streams];
    this.lastUsedAtMs = nowMs;
    this.#mustHearOfLists = streams.isTakenUp;
  }

  announceLists(): void {
    if (this.#mustHearOfLists) this.lane.announceLists(this);
    this.#mustHearOfLists = false;
  }

  override deliver(text: string): void {
    this.streams.emit(text);
  }

  override deliverOnce(text: string): void {
    this.streams.emitOnce(text);
  }

  get isInUse(): boolean {
    return this.callsInFlight > 0 || this.openRequests > 0 || this.streams.isAttached;
  }

  touch(nowMs: number): void {
    this.lastUsedAtMs = nowMs;
    this.onUsed?.();
  }

  override beginCall(): void {
    this.hasCalled = true;
    this.callsInFlight++;
  }

  override endCall(nowMs: number): void {
    this.callsInFlight--;
    // The session was in use until now, even if its client sent nothing meanwhile.
    if (this.openRequests === 0) this.touch(nowMs);
  }

  /** Called once, by the session store. */
  end(isOver: boolean): void {
    this.hasEnded = true;
    // A private server ends only when `onEnd` is called, whatever the rest has thrown.
    try {
      this.lane.endCaller(this);
    } finally {
      try {
        this.streams.close();
      } finally {
        this.onEnd?.(isOver);
      }
    }
  }
}
