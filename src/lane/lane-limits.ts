/** The limits of a lane. */
export interface LaneLimits {
  /** The time of a request from acceptance to response. Progress and the server's requests to the client renew it. */
  readonly requestTimeoutMs: number;
  /** The time that a request waits for a server that is starting, restarting or overloaded. */
  readonly holdTimeoutMs: number;
  /** The delay after which a response begins as a stream, if the client accepts one. */
  readonly streamAfterMs: number;
  /** The maximum number of queue entries. */
  readonly maxHeldRequests: number;
  /** The maximum number of client requests that the server has at a time. */
  readonly maxInFlight: number;
  /** The maximum number of requests of one session that are in flight or queued. */
  readonly maxSessionRequests: number;
  /** The maximum bytes of all lines that are queued, being checked, or not yet read by the server. */
  readonly maxQueuedBytes: number;
  /** Used in an error message only. The line decoder enforces it. */
  readonly maxLineBytes: number;
  /** The interval of pings to an idle server; undefined means never. */
  readonly pingIntervalMs: number | undefined;
  /** The number of consecutive timeouts of a silent server after which it counts as unresponsive. */
  readonly hungTimeouts: number;
}

/** The maximum total time of a request whose time is renewed, as a multiple of its timeout. */
export const MAX_RENEWED_TIMES = 10;
