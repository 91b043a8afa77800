import type { SidecarError } from "../errors.ts";
import type { NotificationMessage, RequestMessage, ResponseMessage } from "../protocol/message.ts";
import type { MemoryAccount, MemoryHolder } from "../memory/memory-budget.ts";
import type { Exchange } from "./exchange.ts";
import type { Caller } from "./caller.ts";
import type { Principal } from "./principal.ts";
import type { SessionStreams } from "./streams/session-streams.ts";

/** The port of a session to its lane. */
export interface SessionLane {
  /** Sends a request to the server. Finishes the exchange with its response, or with an error. */
  request(caller: Caller, exchange: Exchange, request: RequestMessage): void;
  /** Rejects a request for a reason outside the lane. */
  refuse(exchange: Exchange, error: SidecarError): void;
  /** Sends a notification to the server. @returns the error if it is rejected. */
  notify(session: Session, notification: NotificationMessage): SidecarError | undefined;
  /** Sends the response to a server's request. @returns the error if it is rejected. */
  answer(session: Session, response: ResponseMessage): SidecarError | undefined;
  /** Tells a session that lists may have changed, as far as the server would tell it. */
  announceLists(session: Session): void;
  /** Cancels the requests of a caller and removes its state. Must be called at the end of each caller, with a session or without. */
  endCaller(caller: Caller): void;
}

export interface SessionOptions {
  /** Unique, and never chosen by a client. */
  readonly id: string;
  /** The revision in the response to `initialize`. */
  readonly protocolVersion: string;
  readonly lane: SessionLane;
  readonly streams: SessionStreams;
  /** The memory of the client. */
  readonly memory: MemoryAccount;
  /** True if the session was opened elsewhere, so that its client has not heard of changes since then. */
  readonly isTakenUp?: boolean;
  /** The only principal that may use the session; undefined if no token is required. */
  readonly owner?: Principal | undefined;
  /** The time of the `initialize`. */
  readonly nowMs: number;
  /** Called once, when the session has ended. @param isOver false if the session may be taken up again. */
  readonly onEnd?: (isOver: boolean) => void;
}

/** A session, which `initialize` has opened, here or at another replica. */
export class Session implements Caller {
  readonly id: string;
  readonly protocolVersion: string;
  readonly lane: SessionLane;
  readonly streams: SessionStreams;
  readonly memory: MemoryAccount;
  readonly owner: Principal | undefined;
  /** Called at each use, also at the end of a use. */
  onUsed: (() => void) | undefined;
  readonly #onEnd: SessionOptions["onEnd"];
  #lastUsedAtMs: number;
  #callsInFlight = 0;
  #openRequests = 0;
  #hasCalled = false;
  #hasEnded = false;
  #mustHearOfLists: boolean;

  constructor({ id, protocolVersion, lane, streams, memory, owner, isTakenUp = false, nowMs, onEnd }: SessionOptions) {
    this.id = id;
    this.protocolVersion = protocolVersion;
    this.lane = lane;
    this.streams = streams;
    this.memory = memory;
    this.owner = owner;
    this.#mustHearOfLists = isTakenUp;
    this.#onEnd = onEnd;
    this.#lastUsedAtMs = nowMs;
  }

  /** The time of the client's last message, the last end of a request, or the last close of a stream. */
  get lastUsedAtMs(): number {
    return this.#lastUsedAtMs;
  }

  /** The client that the session counts for. */
  get holder(): MemoryHolder {
    return this.memory.holder;
  }

  get callsInFlight(): number {
    return this.#callsInFlight;
  }

  /** True if its lane has accepted a request since `initialize`. */
  get hasCalled(): boolean {
    return this.#hasCalled;
  }

  /** Must be called when the client has opened a GET stream. */
  announceLists(): void {
    if (this.#mustHearOfLists) this.lane.announceLists(this);
    this.#mustHearOfLists = false;
  }

  get hasEnded(): boolean {
    return this.#hasEnded;
  }

  deliver(text: string): void {
    this.streams.emit(text);
  }

  deliverOnce(text: string): void {
    this.streams.emitOnce(text);
  }

  /** True if the client sends a request, waits for a response or reads it, or has a stream open. */
  get isInUse(): boolean {
    return this.#callsInFlight > 0 || this.#openRequests > 0 || this.streams.isAttached;
  }

  /** Marks the session as used now. */
  touch(nowMs: number): void {
    this.#lastUsedAtMs = nowMs;
    this.onUsed?.();
  }

  /** Must be called when an HTTP request of the client begins to arrive. */
  beginRequest(): void {
    this.#openRequests++;
  }

  /** Must be called when the response to an HTTP request is read, or its connection has closed. */
  endRequest(nowMs: number): void {
    this.#openRequests--;
    this.touch(nowMs);
  }

  beginCall(): void {
    this.#hasCalled = true;
    this.#callsInFlight++;
  }

  endCall(nowMs: number): void {
    this.#callsInFlight--;
    // The session was in use until now, even if its client sent nothing meanwhile.
    this.touch(nowMs);
  }

  /** Cancels its requests and closes its streams. To be called once, by the session store. @param isOver false if it may be taken up again. */
  end(isOver: boolean): void {
    this.#hasEnded = true;
    // A private server ends only when `onEnd` is called, whatever the rest has thrown.
    try {
      this.lane.endCaller(this);
    } finally {
      try {
        this.streams.close();
      } finally {
        this.#onEnd?.(isOver);
      }
    }
  }
}
