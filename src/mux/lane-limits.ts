/** The bounds of everything that waits in a lane. */
export interface LaneLimits {
  /** A request's time, from acceptance to answer; progress, and questions of the server to the client, renew it. */
  readonly requestTimeoutMs: number;
  /** How long a request waits for a server that is starting or restarting, or has too much to do. */
  readonly holdTimeoutMs: number;
  /** After how much silence an answer is begun as a stream, for a client that can read one. */
  readonly streamAfterMs: number;
  /** What may wait at the same time. */
  readonly maxHeldRequests: number;
  /** Requests of clients that the server has to answer at the same time. */
  readonly maxInFlight: number;
  /** Requests of one session that are in flight or wait. */
  readonly maxSessionRequests: number;
  /** The text of all that waits for its turn, or for the server to read. */
  readonly maxQueuedBytes: number;
  /** Only named in an error; the line decoder enforces it. */
  readonly maxLineBytes: number;
  /** How often an idle server is sent a `ping`; undefined for never. */
  readonly pingIntervalMs: number | undefined;
  /** A server that is silent during this many timeouts in a row counts as hung. */
  readonly hungTimeouts: number;
}

/** How many times its time a request may take in all, however often that is renewed. */
export const MAX_RENEWED_TIMES = 10;
