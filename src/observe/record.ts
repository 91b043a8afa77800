import { findMembers } from "../json/find.ts";
import type { SidecarErrorCode } from "../mcp/errors.ts";
import { type RequestMessage, Slot } from "../mcp/message.ts";
import type { RequestEnding } from "./counters.ts";

/** A request that was rejected before it had a reply. */
export interface RejectedRequest {
  readonly code: SidecarErrorCode;
  readonly httpStatus: number;
  /** The message of an error that was found before the body was read, so it cannot quote the body. */
  readonly reason: string | undefined;
  /** Returns the sender. Observers call it only if they need it. */
  readonly sender: () => {
    readonly principal: string;
    /** The session id that the request names, valid or not. */
    readonly sessionId: string | undefined;
    /** The declared size of the body; undefined if it is unknown. */
    readonly requestBytes: number | undefined;
  };
}

/** The port to observers of clients' requests, such as the log of requests. */
export interface RequestObserver {
  /** Called once at the end of each request that had a reply. @param body the JSON text of the response; undefined without one. */
  ended(request: ObservedRequest, ending: RequestEnding, body: string | undefined): void;
  /** Called for each HTTP request that was rejected before that. */
  rejected(request: RejectedRequest): void;
}

/** Longer texts are not searched for an error. In UTF-16 units. */
export const MAX_ERROR_LENGTH = 64 * 1024;

/** A client's request on its way, for an observer. */
export class ObservedRequest {
  readonly method: string;
  /** The name of the tool, for a `tools/call`. */
  readonly tool: string | undefined;
  /** The name of the token of the client, or without tokens its network address. */
  readonly principal: string;
  readonly acceptedAtMs: number;
  readonly requestBytes: number;
  /** Undefined without a session. */
  sessionId: string | undefined;
  /** The protocol revision; undefined until it is known. */
  revision: string | undefined;
  /** The time at which it was passed to the server for the first time; undefined if it was not. */
  sentAtMs: number | undefined;
  /** Undefined if the client has disconnected before the response began. */
  httpStatus: number | undefined;
  /** True for an error of the sidecar to a request that was not sent. */
  isRejected = false;
  readonly #observer: RequestObserver;

  constructor(observer: RequestObserver, { method, text, outline }: RequestMessage, principal: string, acceptedAtMs: number) {
    this.#observer = observer;
    this.method = method;
    this.tool = method === "tools/call" ? outline.stringAt(Slot.toolName) : undefined;
    this.principal = principal;
    this.acceptedAtMs = acceptedAtMs;
    this.requestBytes = Buffer.byteLength(text);
  }

  setSession({ id, protocolVersion }: { readonly id: string; readonly protocolVersion: string }): void {
    this.sessionId = id;
    this.revision = protocolVersion;
  }

  onSent(nowMs: number): void {
    this.sentAtMs ??= nowMs;
  }

  /** Must be called once, at the end. */
  end(httpStatus: number | undefined, ending: RequestEnding, body: string | undefined, isRejected: boolean): void {
    this.httpStatus = httpStatus;
    this.isRejected = isRejected;
    this.#observer.ended(this, ending, body);
  }
}

/** Returns a duration for people, to a tenth of a millisecond. */
export function rounded(ms: number): number {
  return Math.round(ms * 10) / 10;
}

/** True for a JSON-RPC error. */
export function isErrorResponse(body: string): boolean {
  return body.length <= MAX_ERROR_LENGTH && body.includes('"error"') && findMembers(body, 0, ["error"]).spans[0] !== undefined;
}

/** Returns an observer that passes everything on to all of these; undefined without any. */
export function observeAll(observers: readonly RequestObserver[]): RequestObserver | undefined {
  const [only] = observers;
  if (observers.length <= 1) return only;
  return {
    ended: (request, ending, body) => {
      for (const observer of observers) observer.ended(request, ending, body);
    },
    rejected: (request) => {
      for (const observer of observers) observer.rejected(request);
    },
  };
}
