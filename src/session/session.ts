import type { KeyObject } from "node:crypto";
import { SidecarError } from "../mcp/errors.ts";
import type { NotificationMessage, RequestMessage, ResponseMessage } from "../mcp/message.ts";
import type { MemoryAccount, MemoryHolder } from "../memory.ts";
import type { ObservedRequest } from "../observe/record.ts";
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

/** A server's request that the client of one of its calls answers: an elicitation, a sampling, or a question for roots. It is answered once, or withdrawn. */
export interface ServerAsk {
  readonly request: RequestMessage;
  /** Sends the response. Does nothing if the server no longer waits for it. @param text the JSON text of the value. */
  answer(member: "result" | "error", text: string): void;
  /** Shows the server that the client is still there, if it wants progress. */
  showProgress(): void;
}

/** The call of a question. */
export interface AskedCall {
  /** Parks the call until `resume`: it takes no slot and no time. */
  park(): void;
  /** Continues the call, whose reply has the client's next request. @param progressTokenText that of the request. */
  resume(progressTokenText: string | undefined): void;
  /** Cancels a parked call at the server. */
  cancel(reason: string): void;
  /** @returns the error if the queue of the server's stdin is too full for these answers. */
  roomError(text: string): SidecarError | undefined;
}

/** The part of a reply that passes questions of the server to the client. */
export interface Asking {
  /** True if the client has declared this kind of question. */
  canAnswer(request: RequestMessage): boolean;
  /** Called for a question that was refused, although it is about this call. */
  onRefused(request: RequestMessage): void;
  ask(ask: ServerAsk, call: AskedCall): void;
  /** Must be called if the server has withdrawn a question, or has exited. */
  withdraw(ask: ServerAsk): void;
}

/** The port to the client: a request that waits for its JSON-RPC response. It finishes exactly once. */
export interface Reply {
  /** The JSON text of the client's request id. The response has the same text. */
  readonly idText: string;
  /** The time at which the HTTP request arrived. Its timeout starts here. */
  readonly acceptedAtMs: number;
  /** The least severe log messages that the client wants until the response. Undefined if it wants none, or in a session. */
  readonly logLevel?: string | undefined;
  /** Passes questions of the server to the client. Undefined if the request cannot have any. */
  readonly asking?: Asking | undefined;
  /** The observation of the request; undefined if nothing observes it. */
  readonly observed?: ObservedRequest | undefined;
  /** True if a message that is sent before the response reaches the client at once. */
  readonly isListening: boolean;
  /** Sends a notification or a server's request before the response. @returns false if the client does not accept messages here. */
  emit(body: string): boolean;
  /** Begins a slow response, if the client accepts a stream. May be called again. */
  keepAlive(): void;
  /**
   * Finishes with a JSON-RPC response, which has the client's request id.
   *
   * @param response the server's message, if the body differs from it in the id only.
   */
  respond(body: string, response?: ResponseMessage): void;
  fail(error: SidecarError): void;
  /** Finishes without a response, because the client has cancelled the request. */
  dismiss(): void;
  /** Sets the listener, which is called once if the client disconnects before the reply has finished, and cannot reconnect for the response. */
  onDisconnect(listener: () => void): void;
}

/** The port of a session to its lane. */
export interface SessionLane {
  /** Sends a request to the server. Finishes the reply with its response, or with an error. */
  request(caller: Caller, reply: Reply, request: RequestMessage): void;
  /** Rejects a request for a reason outside the lane. */
  refuse(reply: Reply, error: SidecarError): void;
  /** Sends a notification to the server. @returns the error if it is rejected. */
  notify(session: Session, notification: NotificationMessage): SidecarError | undefined;
  /** Sends the response to a server's request. @returns the error if it is rejected. */
  answer(session: Session, response: ResponseMessage): SidecarError | undefined;
  /** Tells a session that lists may have changed, as far as the server would tell it. */
  announceLists(session: Session): void;
  /** Cancels the requests of a caller and removes its state. Must be called at the end of each caller, with a session or without. */
  endCaller(caller: Caller): void;
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
  #openRequests = 0;
  #mustHearOfLists: boolean;

  /** @param id unique, and never chosen by a client. @param memory that of the client. @param nowMs the time of the `initialize`. */
  constructor(
    id: string,
    protocolVersion: string,
    lane: SessionLane,
    streams: SessionStreams,
    memory: MemoryAccount,
    owner: Principal | undefined,
    nowMs: number,
  ) {
    this.id = id;
    this.protocolVersion = protocolVersion;
    this.lane = lane;
    this.streams = streams;
    this.memory = memory;
    this.owner = owner;
    this.lastUsedAtMs = nowMs;
    this.#mustHearOfLists = streams.isTakenUp;
  }

  /** The client that the session counts for. */
  get holder(): MemoryHolder {
    return this.memory.holder;
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
    return this.callsInFlight > 0 || this.#openRequests > 0 || this.streams.isAttached;
  }

  /** Marks the session as used now. */
  touch(nowMs: number): void {
    this.lastUsedAtMs = nowMs;
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
    this.hasCalled = true;
    this.callsInFlight++;
  }

  endCall(nowMs: number): void {
    this.callsInFlight--;
    // The session was in use until now, even if its client sent nothing meanwhile.
    this.touch(nowMs);
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

/**
 * Rewrites a response.
 *
 * @param body a JSON-RPC response as the client would read it.
 * @param response the server's message, if the body differs from it in the id only.
 * @returns the text or the error that the client gets in its place.
 */
export type Rewrite = (body: string, response?: ResponseMessage) => string | SidecarError;

/** A reply whose response is rewritten on its way to the client. Everything else is unchanged. */
export class RewrittenReply implements Reply {
  protected readonly inner: Reply;
  readonly #rewrite: Rewrite;

  constructor(inner: Reply, rewrite: Rewrite) {
    this.inner = inner;
    this.#rewrite = rewrite;
  }

  get idText(): string {
    return this.inner.idText;
  }

  get acceptedAtMs(): number {
    return this.inner.acceptedAtMs;
  }

  get asking(): Reply["asking"] {
    return this.inner.asking;
  }

  get isListening(): boolean {
    return this.inner.isListening;
  }

  get logLevel(): string | undefined {
    return this.inner.logLevel;
  }

  get observed(): Reply["observed"] {
    return this.inner.observed;
  }

  emit(body: string): boolean {
    return this.inner.emit(body);
  }

  keepAlive(): void {
    this.inner.keepAlive();
  }

  respond(body: string, response?: ResponseMessage): void {
    const rewritten = this.#rewrite(body, response);
    if (rewritten instanceof SidecarError) this.fail(rewritten);
    else this.inner.respond(rewritten, rewritten === body ? response : undefined);
  }

  fail(error: SidecarError): void {
    this.inner.fail(error);
  }

  dismiss(): void {
    this.inner.dismiss();
  }

  onDisconnect(listener: () => void): void {
    this.inner.onDisconnect(listener);
  }
}
