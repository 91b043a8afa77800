import { type KeyObject, randomUUID } from "node:crypto";
import type { SidecarError } from "../mcp/errors.ts";
import type { NotificationMessage, RequestMessage, ResponseMessage } from "../mcp/message.ts";
import type { MemoryAccount } from "../memory.ts";
import type { Reply } from "./reply.ts";
import type { SessionStreams } from "./streams.ts";

/**
 * The sender of requests: a session, or a client without one. The object is the key for fairness, rates and limits: callers take turns,
 * and each has its own limits. A lane may keep state for it, such as its log level, until the call of `endCaller`.
 */
export interface Caller {
  /** Unique, and never chosen by a client. */
  readonly id: string;
  /** The memory of the client. */
  readonly memory: MemoryAccount;
  /** The number of its requests that are queued or in flight. */
  readonly callsInFlight: number;
  /** Called when a lane has accepted a request. */
  beginCall(): void;
  /** Called once at the end of each accepted request. */
  endCall(nowMs: number): void;
  /** Delivers a message of the server that belongs to no request in flight. */
  deliver(text: string): void;
  /** Delivers an idempotent message, unless the same text is waiting already. */
  deliverOnce(text: string): void;
  /**
   * Called when a restarted server is ready, if the caller gets the messages for all clients.
   *
   * @param initializeResult the JSON text; undefined if the server has no sessions now.
   */
  onRestarted?(initializeResult: string | undefined): void;
}

/** The owner of sessions: one object for each auth token, without the token itself. */
export interface Principal {
  /** True if the token is no longer valid. */
  readonly isRevoked: boolean;
  /** Names the token in the log, without a part of it. */
  readonly name: string;
  /** A text for the token, the same in all replicas. It must not be shown: it would confirm guesses of a short token. */
  readonly fingerprint: string;
  /** The key of session ids that is derived from the token; undefined if it is too short for that. */
  readonly sessionKey: KeyObject | undefined;
}

/** The port of a session to its lane. */
export interface SessionLane {
  /** Sends a request to the server. Finishes the reply with its response, or with an error. */
  request(caller: Caller, reply: Reply, request: RequestMessage): void;
  /** Sends a notification to the server. @returns the error if it is rejected. */
  notify(session: Session, notification: NotificationMessage): SidecarError | undefined;
  /** Sends the response to a server's request. @returns the error if it is rejected. */
  answer(session: Session, response: ResponseMessage): SidecarError | undefined;
  /** Tells a session that lists may have changed, as far as the server would tell it. */
  announceLists(session: Session): void;
  /** Cancels the requests of a caller and removes its state. Must be called at the end of each caller, with a session or without. */
  endCaller(caller: Caller): void;
}

/** A client of the stateless revisions: a principal, or without tokens a peer address. Its requests share limits and rates. */
export class StatelessClient implements Caller {
  readonly id = randomUUID();
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

  deliver(_text: string): void {
    // A message that belongs to no request in flight has no stream.
  }

  deliverOnce(_text: string): void {
    // As above. Subscriptions have callers of their own.
  }
}

/** A session, as far as its id tells of it: one that is not open here may be taken up. */
export interface KnownSession {
  readonly id: string;
  readonly owner: Principal | undefined;
  readonly protocolVersion: string;
  /** The request in place of the one that has opened it elsewhere. */
  readonly initialize: RequestMessage;
}

/** A session, which `initialize` has opened, here or at another replica. Only the session changes its own state. */
export class Session implements Caller {
  readonly id: string;
  /** The revision in the response to `initialize`. */
  readonly protocolVersion: string;
  readonly lane: SessionLane;
  readonly streams: SessionStreams;
  readonly memory: MemoryAccount;
  /** The only principal that may use the session; undefined if no token is required. */
  readonly owner: Principal | undefined;
  /** Called at each use, also at the end of a use. */
  onUsed: (() => void) | undefined;
  /** Called once, when the session has ended. @param isOver false if the session may be taken up again. */
  onEnd: ((isOver: boolean) => void) | undefined;
  /** The time of the client's last message, the last end of a request, or the last close of a stream. */
  lastUsedAtMs: number;
  callsInFlight = 0;
  /** True if its lane has accepted a request since `initialize`. */
  hasCalled = false;
  hasEnded = false;
  /** True while its server ends: its requests wait until it is evicted, and then go to another server. */
  isMoving = false;
  /** The number of its HTTP requests that arrive, or whose response is not read. Who adds one must call `endRequest` at its end. */
  openRequests = 0;
  #mustHearOfLists: boolean;

  /** @param nowMs the time of the `initialize`. */
  constructor({ id, owner, protocolVersion }: Omit<KnownSession, "initialize">, lane: SessionLane, streams: SessionStreams, nowMs: number) {
    [this.id, this.owner, this.protocolVersion] = [id, owner, protocolVersion];
    [this.lane, this.streams, this.memory] = [lane, streams, streams.memory];
    this.lastUsedAtMs = nowMs;
    this.#mustHearOfLists = streams.isTakenUp;
  }

  /** Must be called when the client has opened a GET stream. */
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

  /** True if the client sends a request, waits for a response or reads it, or has a stream open. */
  get isInUse(): boolean {
    return this.callsInFlight > 0 || this.openRequests > 0 || this.streams.isAttached;
  }

  touch(nowMs: number): void {
    this.lastUsedAtMs = nowMs;
    this.onUsed?.();
  }

  /** Must be called when the response to an HTTP request is read, or its connection has closed. */
  endRequest(nowMs: number): void {
    this.openRequests--;
    this.touch(nowMs);
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

  /** Cancels its requests and closes its streams. To be called once, by the session store. @param isOver false if it may be taken up again. */
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
