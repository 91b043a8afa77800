import type { MemoryAccount } from "../memory/memory-budget.ts";

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
