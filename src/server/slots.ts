import { shorten } from "../json/text.ts";
import type { SidecarError } from "../mcp/errors.ts";
import type { MemoryHolder, Reservation } from "../memory.ts";

/** A map whose keys take turns. The next one comes first, and a new one last. */
export class Turns<Key, Value> extends Map<Key, Value> {
  /** Returns the value of a key, and creates it if there is none. */
  join(key: Key, create: () => Value): Value {
    const value = this.get(key) ?? create();
    if (!this.has(key)) this.set(key, value);
    return value;
  }

  /** Ends the turn of a key. Its next one comes after all others. */
  rotate(key: Key): void {
    const value = this.get(key);
    if (value === undefined) return;
    this.delete(key);
    this.set(key, value);
  }

  /** Gives these keys the next turns, in this order. Takes linear time. */
  advance(keys: readonly Key[]): void {
    for (const key of new Set([...keys, ...this.keys()])) this.rotate(key);
  }
}

/**
 * A semaphore that limits the concurrent calls of one tool in a lane. All calls of the tool share it. It keeps the holders themselves, so
 * that each slot is released only once, however its call ends.
 */
export class ToolSemaphore {
  readonly toolName: string;
  readonly limit: number;
  readonly #holders = new Set<object>();
  /** The queued calls of each session. The queue maintains it. */
  readonly waiting = new Turns<object, readonly object[]>();

  /** @param limit at least 1. */
  constructor(toolName: string, limit: number) {
    this.toolName = toolName;
    this.limit = limit;
  }

  /** The number of queued calls. */
  get waitingCount(): number {
    return this.waiting.values().reduce((sum, { length }) => sum + length, 0);
  }

  /** The number of free slots. */
  get freeCount(): number {
    return this.limit - this.#holders.size;
  }

  /** True if a new call may be sent at once, because a slot is free and no other call waits for it. */
  get isFree(): boolean {
    return this.waiting.size === 0 && this.freeCount > 0;
  }

  /** True if no call holds a slot or waits for one. */
  get isUnused(): boolean {
    return this.waiting.size === 0 && this.#holders.size === 0;
  }

  /** True if a queued call of this session may be sent. Each free slot belongs to one of the sessions that have waited longest. */
  isFreeFor(owner: object): boolean {
    const { freeCount } = this;
    return (
      freeCount > 0 &&
      this.waiting
        .keys()
        .take(freeCount)
        .some((each) => each === owner)
    );
  }

  acquire(holder: object): void {
    this.#holders.add(holder);
  }

  release(holder: object): void {
    this.#holders.delete(holder);
  }

  /** Returns the reason why a call of the tool was not sent, for an error message. */
  describe(): string {
    return `tool ${shorten(this.toolName)} has ${this.limit} in flight, ${this.waitingCount} queued`;
  }
}

/** The sidecar's own response to a call: an error, or the JSON text of a result. */
export type CallVerdict = { readonly error: SidecarError } | { readonly resultText: string };

/**
 * Checks a call before it is sent. Calls `onVerdict` once, synchronously or later, unless the check is stopped: with undefined if the call
 * may be sent.
 *
 * @returns a function that stops the check.
 */
export type CallCheck = (onVerdict: (verdict: CallVerdict | undefined) => void) => () => void;

/** The limits of a single call, in addition to the limits of its lane. */
export interface CallLimits {
  /** The timeout of the call; the default is REQUEST_TIMEOUT_MS. */
  readonly timeoutMs?: number;
  /** The setting that this timeout comes from, if there is one. */
  readonly timeoutSetting?: "REQUEST_TIMEOUT_MS" | "TOOL_TIMEOUTS_MS" | undefined;
  /** The semaphore of its tool in the lane, in addition to MAX_IN_FLIGHT. */
  readonly semaphore?: ToolSemaphore;
  readonly check?: CallCheck | undefined;
}

/** An entry of the queue. Exactly one of `release` and `refuse` is called, unless the entry is removed first. */
export interface QueueEntry {
  /** The session or other object that the entry belongs to. The queue is fair between owners. */
  readonly owner: object;
  /** True if the entry needs one of the server's slots (MAX_IN_FLIGHT). */
  readonly takesSlot: boolean;
  /** The semaphore of its tool, which has its own slots; only with `takesSlot`. Entries of one owner and semaphore stay in order. */
  readonly semaphore?: ToolSemaphore | undefined;
  /** The time at which the entry is rejected. */
  readonly expiresAtMs: number;
  /** The UTF-8 length of its text. */
  readonly byteLength: number;
  /** For a request that waits for the server without being one of its calls; undefined for a call or a notification. */
  readonly held?: {
    readonly holder: MemoryHolder;
    readonly memory: Reservation;
    /** Removes the entry, and fails the request. */
    fail(error: SidecarError): void;
  };
  /** Sends the entry. */
  release(): void;
  /** Rejects the entry, because it has expired or was evicted. */
  refuse(): void;
}
