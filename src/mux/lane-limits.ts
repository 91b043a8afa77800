/** The bounds of everything that waits in a lane. */
export interface LaneLimits {
  /** A request's time, from acceptance to answer. */
  readonly requestTimeoutMs: number;
  /** How long a request waits for a server that is starting or restarting. */
  readonly holdTimeoutMs: number;
  readonly maxHeldRequests: number;
  readonly maxInFlight: number;
  /** What may wait for the server to be ready or to read. */
  readonly maxQueuedBytes: number;
  /** Only named in an error; the line decoder enforces it. */
  readonly maxLineBytes: number;
}
