import { findMembers } from "../json/find.ts";
import type { SidecarErrorCode } from "../mcp/errors.ts";
import { type RequestMessage, Slot } from "../mcp/message.ts";

/** The causes of a generation's exit. */
export const EXIT_KINDS = [
  /** It exited with code 0, by itself. */
  "clean-exit",
  /** It exited with any other code. */
  "crash",
  "signal",
  /** The kernel killed it for lack of memory. */
  "out-of-memory",
  "spawn-failed",
  "handshake-refused",
  "handshake-timeout",
  /** It closed its stdin or stdout but kept running. */
  "pipe-closed",
  "hung",
  /** It did not list its tools, which the tool policy needs. */
  "tools-not-listed",
  /** The sidecar failed to handle its output. */
  "defect",
  /** The sidecar terminated it, because the sidecar stopped or the session of a private server ended. */
  "stopped",
] as const;
export type ExitKind = (typeof EXIT_KINDS)[number];

/** The end of an accepted request; a code if the sidecar answered it with an error. */
export type RequestEnding = keyof Counters["answers"] | SidecarErrorCode;

/**
 * Counts of events since the start, for all lanes together. They are plain numbers, because they change with every message.
 *
 * A valid request of an existing session, or an `initialize`, is either accepted or rejected. An accepted one ends exactly once: `accepted`
 * is the sum of all `answers`, all `failures`, and the requests in flight, queued or suspended. Those of the sidecar itself do not count,
 * except for the subscriptions and log levels that it sends for clients without a session.
 */
export class Counters {
  readonly requests = {
    /** Accepted requests of clients: sent to the server, queued for it, or answered by the sidecar itself. */
    accepted: 0,
    /** Accepted requests that had to wait, because the server was not ready or had MAX_IN_FLIGHT requests. */
    held: 0,
    /** Accepted requests that were sent again after the server had exited. */
    repeated: 0,
  };
  readonly answers = {
    /** Results of the server, or of the sidecar itself. */
    results: 0,
    /** JSON-RPC errors of the server, or of the sidecar for reasons other than a failure. */
    errors: 0,
    /** Cancelled by the client, which then gets no response. */
    dismissed: 0,
    /** The client has disconnected and cannot resume. */
    unread: 0,
  };
  /** Discarded output of servers, and discarded notifications of clients that were already acknowledged. */
  readonly dropped = {
    /** Notifications of clients for a server that was not ready in time. */
    clientNotifications: 0,
    /** Responses to requests that had timed out or were cancelled. */
    lateAnswers: 0,
    /** Responses to requests that were never sent or already answered. */
    unknownAnswers: 0,
    /** Notifications without a known recipient. */
    notifications: 0,
    /** Requests of a server that does not read the responses. */
    requests: 0,
    /** Lines longer than MAX_LINE_BYTES. */
    overlongLines: 0,
    /** Lines that are not JSON-RPC. */
    noiseLines: 0,
  };
  /** Actions of the tool policy other than rejections. */
  readonly policy = {
    /** Calls whose arguments violated the tool's schema, sent or not. */
    invalidArguments: 0,
    /** Argument checks that exceeded a limit of time or memory, or failed. */
    argumentChecksGivenUp: 0,
    /** Results truncated to MAX_RESULT_BYTES. */
    truncatedResults: 0,
  };
  readonly http = {
    /** Connections closed because the client did not read. */
    readersCutOff: 0,
    /** Connections closed because there were too many. */
    connectionsDropped: 0,
  };
  /** Defects of the sidecar, each of which failed at most one reply or one server. */
  defects = 0;
  readonly byKey = {
    /** Accepted requests that ended with an error of the sidecar, by code. */
    failures: new Map<SidecarErrorCode, number>(),
    /** Rejected requests, by code. */
    refusals: new Map<SidecarErrorCode, number>(),
    exits: new Map<ExitKind, number>(),
    /** HTTP responses. */
    statuses: new Map<number, number>(),
  };

  countEnding(ending: RequestEnding): void {
    if (ending === "results" || ending === "errors" || ending === "dismissed" || ending === "unread") this.answers[ending]++;
    else increment(this.byKey.failures, ending);
  }

  countRefusal(code: SidecarErrorCode): void {
    increment(this.byKey.refusals, code);
  }

  countExit(kind: ExitKind): void {
    increment(this.byKey.exits, kind);
  }

  countStatus(httpStatus: number): void {
    increment(this.byKey.statuses, httpStatus);
  }

  /** Returns the counters in the form of `/status`. */
  toJSON(): object {
    const { requests, answers, dropped, policy, http, defects, byKey } = this;
    return {
      requests: { ...requests, refused: Object.fromEntries(byKey.refusals) },
      answers: { ...answers, failures: Object.fromEntries(byKey.failures) },
      exits: Object.fromEntries(byKey.exits),
      dropped,
      policy,
      http: { ...http, responses: Object.fromEntries(byKey.statuses) },
      defects,
    };
  }
}

function increment<Key>(counts: Map<Key, number>, key: Key): void {
  counts.set(key, (counts.get(key) ?? 0) + 1);
}

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
  readonly #observers: readonly RequestObserver[];

  constructor(
    observers: readonly RequestObserver[],
    { method, text, outline }: RequestMessage,
    principal: string,
    acceptedAtMs: number,
    session?: { readonly id: string; readonly protocolVersion: string },
  ) {
    this.#observers = observers;
    this.sessionId = session?.id;
    this.revision = session?.protocolVersion;
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

  /** Must be called once, at the end. */
  end(httpStatus: number | undefined, ending: RequestEnding, body: string | undefined, isRejected: boolean): void {
    this.httpStatus = httpStatus;
    this.isRejected = isRejected;
    for (const observer of this.#observers) observer.ended(this, ending, body);
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
