import type { SidecarError } from "../../errors.ts";
import type { MemoryHolder, Reservation } from "../../memory/memory-budget.ts";
import type { ToolSemaphore } from "./tool-semaphore.ts";

/** A request that waits for the server without being one of its calls. */
interface Held {
  readonly holder: MemoryHolder;
  readonly memory: Reservation;
  /** Removes the entry, and fails the request. */
  fail(error: SidecarError): void;
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
  /** Undefined for a call or a notification. */
  readonly held?: Held;
  /** Sends the entry. */
  release(): void;
  /** Rejects the entry, because it has expired or was evicted. */
  refuse(): void;
}
