import type { ToolSemaphore } from "./tool-semaphore.ts";
import { type Link, LinkedList } from "./linked-list.ts";

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
  /** Sends the entry. */
  release(): void;
  /** Rejects the entry, because it has expired or was evicted. */
  refuse(): void;
}

/** The entries of a session with the same semaphore, or without one, in order. Removed when it is empty. */
export class SubQueue {
  readonly session: SessionQueue;
  readonly semaphore: ToolSemaphore | undefined;
  readonly entries = new LinkedList<QueueEntry>();
  /** The number of entries that take a slot. */
  slotCount = 0;
  /** The list of sub-queues that it takes turns with. */
  turns: LinkedList<SubQueue> | undefined;
  /** Its place in that list. */
  turn: Link<SubQueue> | undefined;

  constructor(session: SessionQueue, semaphore: ToolSemaphore | undefined) {
    this.session = session;
    this.semaphore = semaphore;
  }
}

/** The entries of one session, or of another owner. Removed when it is empty. */
export class SessionQueue {
  readonly owner: object;
  /** The sub-queues by their semaphore. */
  readonly subQueues = new Map<ToolSemaphore | undefined, SubQueue>();
  /** The sub-queues whose next entry only waits for a slot of the server, in the order of their turns. */
  readonly ready = new LinkedList<SubQueue>();
  /** The number of entries. */
  size = 0;
  /** The number of entries that take a slot. */
  slotCount = 0;
  /** Its place among the session queues with a ready sub-queue. */
  turn: Link<SessionQueue> | undefined;

  constructor(owner: object) {
    this.owner = owner;
  }

  /** The newest slot-taking entry of the sub-queue with the most of them. */
  get evictionCandidate(): QueueEntry | undefined {
    let longest: SubQueue | undefined;
    for (const subQueue of this.subQueues.values()) if (subQueue.slotCount > (longest?.slotCount ?? 0)) longest = subQueue;
    return longest?.entries.findLast(({ takesSlot }) => takesSlot);
  }
}

/** The sub-queues that wait for one semaphore. */
export class SemaphoreQueue {
  /** The sub-queues without a free slot, in the order of their turns. */
  readonly waiting = new LinkedList<SubQueue>();
  /** The number of sub-queues with a reserved free slot that wait for a slot of the server. Never exceeds the free slots. */
  readyCount = 0;
}
