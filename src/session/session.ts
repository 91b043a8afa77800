import type { KeyObject } from "node:crypto";
import type { SidecarError } from "../mcp/errors.ts";
import type { NotificationMessage, RequestMessage, ResponseMessage } from "../mcp/message.ts";
import type { MemoryAccount } from "../memory.ts";
import type { Reply } from "./reply.ts";
import type { SessionStreams } from "./streams.ts";

/**
 * The sender of requests: a session, or a client without one. The object is the key for fairness, rates and limits. A lane may keep state
 * for it until `endCaller`.
 */
export interface Caller {
  readonly memory: MemoryAccount;
  readonly callsInFlight: number;
  beginCall(): void;
  endCall(nowMs: number): void;
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

/** The port of a session to its lane. */
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

/** A client of the stateless revisions: a principal, or without tokens a peer address. Its requests share limits and rates. */
export class StatelessClient implements Caller {
  readonly memory: MemoryAccount;
  callsInFlight = 0;

  constructor(memory: MemoryAccount) {
    this.memory = memory;
  }

  beginCall(): void {
    this.callsInFlight++;
  }

  endCall(): void {
    this.callsInFlight--;
  }
}

/** A session as its id tells of it. One that is not open here may be taken up. */
export interface KnownSession {
  readonly id: string;
  readonly owner: Principal | undefined;
  readonly protocolVersion: string;
  /** Made from the claims of the id: the client's own went to another replica. */
  readonly initialize: RequestMessage;
}

/** `initialize` has opened it, here or at another replica. Only the session changes its own state. */
export class Session implements Caller {
  readonly id: string;
  readonly protocolVersion: string;
  readonly lane: SessionLane;
  readonly streams: SessionStreams;
  readonly memory: MemoryAccount;
  /** The only principal that may use it; undefined if no token is required. */
  readonly owner: Principal | undefined;
  onUsed: (() => void) | undefined;
  /** Called once. @param isOver false if the session may be taken up again. */
  onEnd: ((isOver: boolean) => void) | undefined;
  /** The time of the last message, the last end of a request, or the last close of a stream. */
  lastUsedAtMs: number;
  callsInFlight = 0;
  hasCalled = false;
  hasEnded = false;
  /** Its server ends: its requests wait until it is evicted, and then go to another one. */
  isMoving = false;
  /** HTTP requests that arrive, or whose response is not read. An `Exchange` counts them. */
  openRequests = 0;
  #mustHearOfLists: boolean;

  constructor({ id, owner, protocolVersion }: Omit<KnownSession, "initialize">, lane: SessionLane, streams: SessionStreams, nowMs: number) {
    [this.id, this.owner, this.protocolVersion] = [id, owner, protocolVersion];
    [this.lane, this.streams, this.memory] = [lane, streams, streams.memory];
    this.lastUsedAtMs = nowMs;
    this.#mustHearOfLists = streams.isTakenUp;
  }

  announceLists(): void {
    if (this.#mustHearOfLists) this.lane.announceLists(this);
    this.#mustHearOfLists = false;
  }

  deliver(text: string): void {
    this.streams.emit(text);
  }

  deliverOnce(text: string): void {
    this.streams.emitOnce(text);
  }

  /** It sends a request, waits for a response or reads it, or has a stream open. */
  get isInUse(): boolean {
    return this.callsInFlight > 0 || this.openRequests > 0 || this.streams.isAttached;
  }

  touch(nowMs: number): void {
    this.lastUsedAtMs = nowMs;
    this.onUsed?.();
  }

  beginCall(): void {
    this.hasCalled = true;
    this.callsInFlight++;
  }

  endCall(nowMs: number): void {
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
