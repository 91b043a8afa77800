/** The bounds of everything that waits in a lane. */
export interface LaneLimits {
  /** A request's time, from acceptance to answer; progress, and questions of the server to the client, renew it. */
  readonly requestTimeoutMs: number;
  /** How long a request waits for a server that is starting or restarting. */
  readonly holdTimeoutMs: number;
  /** After how much silence an answer is begun as a stream, for a client that can read one. */
  readonly streamAfterMs: number;
  readonly maxHeldRequests: number;
  readonly maxInFlight: number;
  /** What may wait for the server to be ready or to read. */
  readonly maxQueuedBytes: number;
  /** Only named in an error; the line decoder enforces it. */
  readonly maxLineBytes: number;
}

/** How many times its time a request may take in all, however often that is renewed. */
export const MAX_RENEWED_TIMES = 10;
