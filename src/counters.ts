import type { SidecarErrorCode } from "./errors.ts";

/** Why a generation of the MCP server ended. */
export type ExitKind =
  /** With code 0, unasked. */
  | "clean-exit"
  /** With another code. */
  | "crash"
  | "signal"
  | "spawn-failed"
  | "handshake-refused"
  | "handshake-timeout"
  /** It closed its stdin or stdout and lived on. */
  | "pipe-closed"
  | "hung"
  /** It did not list its tools, and the tool policy has to know them. */
  | "tools-not-listed"
  /** The sidecar could not handle what it said. */
  | "defect"
  /** The sidecar ended it, with itself or with the session it was for. */
  | "stopped";

/** Answers, and what comes in place of one that nobody wants any more. */
type AnswerKind = keyof Counters["answers"];

/** How a request ended that had been accepted; a code where it was answered with an error of the sidecar. */
export type RequestEnding = AnswerKind | SidecarErrorCode;

/**
 * What happened since the start, in all lanes together. Plain numbers, since they are counted with every message.
 *
 * A request of a client, `initialize` included, that is valid and of a living session is either accepted or refused. An accepted one ends
 * exactly once: `accepted` is the sum of all `answers`, all `failures`, and of those that are still in flight or wait. The requests of
 * the sidecar itself count nowhere.
 */
export class Counters {
  readonly requests = {
    /** Taken from clients: sent to the server, or to be sent to it, or answered by the sidecar in its place. */
    accepted: 0,
    /** Those of them that could not be sent, or answered, when they came: the server was away, or had MAX_IN_FLIGHT requests. */
    held: 0,
    /** Those of them that were sent again after the server had ended. */
    repeated: 0,
  };
  readonly answers = {
    /** Results: of the server, or of the sidecar in its place. */
    results: 0,
    /** JSON-RPC errors that are no failure: of the server, or of the sidecar in its place. */
    errors: 0,
    /** Cancelled by the client, which wants no answer then. */
    dismissed: 0,
    /** The client had gone, and could not come back for the answer. */
    unread: 0,
  };
  /** What was discarded: of a server's output, and of what clients were told that it is taken. */
  readonly dropped = {
    /** Notifications of clients that waited for the server in vain. */
    clientNotifications: 0,
    /** Answers to requests that had been given up. */
    lateAnswers: 0,
    /** Answers to requests that were never sent, or were answered before. */
    unknownAnswers: 0,
    /** Notifications that nobody could be shown to be waiting for. */
    notifications: 0,
    /** Requests of a server that does not read the answers. */
    requests: 0,
    /** Lines longer than MAX_LINE_BYTES. */
    overlongLines: 0,
    /** Lines that are no JSON-RPC. */
    noiseLines: 0,
  };
  /** What the tool policy did, besides refusing. */
  readonly policy = {
    /** Calls whose arguments violated the tool's schema, whether they were carried or not. */
    invalidArguments: 0,
    /** Checks of arguments that took too much time or memory. */
    argumentChecksGivenUp: 0,
    /** Results cut to MAX_RESULT_BYTES. */
    truncatedResults: 0,
  };
  readonly http = {
    /** Connections cut because nothing was read of what waited. */
    readersCutOff: 0,
  };
  /** Faults of the sidecar itself, each of which failed one exchange or one server at most. */
  defects = 0;
  /** Errors of the sidecar that accepted requests ended with. */
  readonly #failures = new Map<SidecarErrorCode, number>();
  /** Errors of the sidecar that requests were refused with, of which nothing was kept. */
  readonly #refusals = new Map<SidecarErrorCode, number>();
  readonly #exits = new Map<ExitKind, number>();
  readonly #statuses = new Map<number, number>();

  /** A request that was accepted has ended. */
  countEnding(ending: RequestEnding): void {
    if (isAnswer(ending)) this.answers[ending]++;
    else increment(this.#failures, ending);
  }

  /** A request was not accepted. */
  countRefusal(code: SidecarErrorCode): void {
    increment(this.#refusals, code);
  }

  countExit(kind: ExitKind): void {
    increment(this.#exits, kind);
  }

  countStatus(httpStatus: number): void {
    increment(this.#statuses, httpStatus);
  }

  /** As `/status` shows them. */
  toJSON(): object {
    const { requests, answers, dropped, policy, http, defects } = this;
    return {
      requests: { ...requests, refused: Object.fromEntries(this.#refusals) },
      answers: { ...answers, failures: Object.fromEntries(this.#failures) },
      exits: Object.fromEntries(this.#exits),
      dropped,
      policy,
      http: { ...http, responses: Object.fromEntries(this.#statuses) },
      defects,
    };
  }
}

function isAnswer(ending: RequestEnding): ending is AnswerKind {
  return ending === "results" || ending === "errors" || ending === "dismissed" || ending === "unread";
}

function increment<Key>(counts: Map<Key, number>, key: Key): void {
  counts.set(key, (counts.get(key) ?? 0) + 1);
}
