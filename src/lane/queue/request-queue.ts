import { FairQueue, type QueueEntry } from "./fair-queue.ts";

export interface RequestQueueOptions {
  /** The maximum number of entries. */
  readonly maxHeld: number;
  /** The maximum number of client requests that the server has at a time. */
  readonly maxInFlight: number;
  /** Returns the number of client requests that were accepted and have not ended, queued ones included. */
  readonly countCalls: () => number;
  /** Returns true if the server has failed, so that entries are rejected at once. */
  readonly isFailed: () => boolean;
  /** Schedules a call of `expire`. */
  readonly watch: (deadlineMs: number) => void;
}

/** The queue of entries for the server. An entry is released when the server is ready and, for a client request, has a free slot. */
export class RequestQueue {
  readonly #options: RequestQueueOptions;
  readonly #queue: FairQueue;
  #isReady = false;
  #areSlotsClosed = false;
  #isReleasing = false;

  constructor(options: RequestQueueOptions) {
    this.#options = options;
    this.#queue = new FairQueue(options.maxHeld);
  }

  get isReady(): boolean {
    return this.#isReady;
  }

  get areSlotsClosed(): boolean {
    return this.#areSlotsClosed;
  }

  /** True if the server may get another client request. */
  get hasSlot(): boolean {
    return !this.#areSlotsClosed && this.#options.countCalls() - this.#queue.slotCount < this.#options.maxInFlight;
  }

  get size(): number {
    return this.#queue.size;
  }

  /** The bytes of all entries. */
  get queuedBytes(): number {
    return this.#queue.queuedBytes;
  }

  has(entry: QueueEntry): boolean {
    return this.#queue.has(entry);
  }

  /** True if this owner has an entry without a semaphore. */
  hasEntriesOf(owner: object): boolean {
    return this.#queue.hasEntriesOf(owner);
  }

  /** Queues an entry. @returns false if the queue is full or the server has failed. */
  add(entry: QueueEntry): boolean {
    const isQueued = !this.#options.isFailed() && this.#queue.add(entry);
    if (isQueued) this.#options.watch(entry.expiresAtMs);
    return isQueued;
  }

  remove(entry: QueueEntry): void {
    this.#queue.remove(entry);
  }

  /** Releases the tool's slot of an entry that has ended. */
  releaseSlot(entry: QueueEntry): void {
    this.#queue.releaseSlot(entry);
  }

  /** Opens the queue for a ready server. @param restore restores the server's state, before any entry is released. */
  open(restore: () => void): void {
    this.#isReady = true;
    restore();
    this.release();
  }

  /** Closes the queue, because the server is lost. @param returned released entries for the next server, which go to the front. */
  close(returned: readonly QueueEntry[]): void {
    this.#isReady = false;
    this.#queue.putBack(returned);
    for (const { expiresAtMs } of returned) this.#options.watch(expiresAtMs);
  }

  /** Makes client requests wait until `openSlots`, even if the server is ready. */
  closeSlots(): void {
    this.#areSlotsClosed = true;
  }

  openSlots(): void {
    this.#areSlotsClosed = false;
    this.release();
  }

  /** Releases all entries that can be sent now. */
  release(): void {
    // An entry may end while it is released, which calls this again. The outer loop then uses the freed slot.
    if (this.#queue.size === 0 || !this.#isReady || this.#isReleasing) return;
    this.#isReleasing = true;
    try {
      let next = this.#queue.next(this.hasSlot);
      while (next !== undefined) {
        next.release();
        next = this.#queue.next(this.hasSlot);
      }
    } finally {
      this.#isReleasing = false;
    }
  }

  /** Rejects expired entries. @returns the time at which the next entry expires, or Infinity. */
  expire(nowMs: number): number {
    return this.#queue.expire(nowMs);
  }

  /** Rejects all entries. */
  refuseAll(): void {
    this.#queue.expire(Number.POSITIVE_INFINITY);
  }
}
