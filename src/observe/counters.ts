import type { SidecarErrorCode } from "../mcp/errors.ts";

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
 * is the sum of all `answers`, all `failures`, and the requests that are in flight or queued. Those of the sidecar itself do not count,
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
    /** JSON-RPC errors of the server, or of the sidecar for other reasons than a failure. */
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

  /** Counts the end of an accepted request. */
  countEnding(ending: RequestEnding): void {
    if (ending === "results" || ending === "errors" || ending === "dismissed" || ending === "unread") this.answers[ending]++;
    else increment(this.byKey.failures, ending);
  }

  /** Counts a rejected request. */
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
