import type { QueueEntry } from "./queue-entry.ts";
import type { ToolSemaphore } from "./tool-semaphore.ts";
import { Turns } from "./turns.ts";

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

/** A reason why client requests wait although the server is ready: its tools are not listed, or it waits for a client's answer. */
type Block = "tools" | "question";

/** The parts of the queue for entries that take no slot: all of them, and those of one owner. They are never evicted. */
const SHARE_WITHOUT_SLOT = 1 / 2;
const OWNER_SHARE_WITHOUT_SLOT = 1 / 4;

/** The entries of one session by their semaphore, each in order of arrival. Entries without a semaphore have a queue of their own. */
type SessionQueues = Turns<ToolSemaphore | undefined, QueueEntry[]>;

/**
 * The queue of entries for the server. An entry is released when the server is ready and, for a client request, has a free slot.
 *
 * Sessions take turns. A session with a thousand entries delays another one by a single entry. Calls of a tool with limited slots have a
 * queue of their own in each session, and so do not block the rest of it. The queues of a session take turns as well. Those without a free
 * slot of their tool are skipped, and their session keeps its place.
 *
 * If the queue is full, the longest session queue loses an entry to a shorter one. Entries without a slot are not evicted, but have a limit.
 */
export class RequestQueue {
  readonly #options: RequestQueueOptions;
  readonly #entries = new Set<QueueEntry>();
  /** The queues that are not empty, by session. */
  readonly #sessions = new Turns<object, SessionQueues>();
  #slotCount = 0;
  /** The entries that are calls. A held request is not one yet. */
  #callCount = 0;
  #queuedBytes = 0;
  #isReady = false;
  readonly #blocks = new Set<Block>();
  #isReleasing = false;
  #isEnded = false;

  constructor(options: RequestQueueOptions) {
    this.#options = options;
  }

  get isReady(): boolean {
    return this.#isReady;
  }

  isBlockedBy(block: Block): boolean {
    return this.#blocks.has(block);
  }

  /** True if the server may get another client request. */
  get hasSlot(): boolean {
    return this.#blocks.size === 0 && this.#options.countCalls() - this.#callCount < this.#options.maxInFlight;
  }

  get size(): number {
    return this.#entries.size;
  }

  get queuedBytes(): number {
    return this.#queuedBytes;
  }

  get entries(): ReadonlySet<QueueEntry> {
    return this.#entries;
  }

  hasEntriesOf(owner: object): boolean {
    return this.#sessions.get(owner)?.has(undefined) === true;
  }

  /** @returns false if the queue is full and no session queue is longer than that of the entry, or if the server has failed or has ended. */
  add(entry: QueueEntry): boolean {
    const { isFailed, maxHeld, watch } = this.#options;
    if (!entry.takesSlot && !this.#hasRoomWithoutSlot(entry.owner)) return false;
    if (this.#isEnded || isFailed() || (this.size >= maxHeld && !this.#makeRoom(entry.owner))) return false;
    this.#insert(entry, "last");
    watch(entry.expiresAtMs);
    return true;
  }

  remove(entry: QueueEntry): void {
    if (!this.#entries.delete(entry)) return;
    this.#count(entry, -1);
    const { owner, semaphore } = entry;
    const queues = this.#sessions.get(owner);
    const queue = queues?.get(semaphore);
    queue?.splice(queue.indexOf(entry), 1);
    if (queue === undefined || queue.length > 0) return;
    semaphore?.waiting.delete(owner);
    queues?.delete(semaphore);
    if (queues?.size === 0) this.#sessions.delete(owner);
  }

  /** Opens the queue for a ready server. @param restore restores the server's state, before any entry is released. */
  open(restore: () => void): void {
    this.#isReady = true;
    restore();
    this.release();
  }

  /**
   * Closes the queue, because the server is lost.
   *
   * @param returned released entries for the next server. They lose their slots and go to the front, even above the limit.
   */
  close(returned: readonly QueueEntry[]): void {
    this.#isReady = false;
    for (const entry of returned.toReversed()) {
      entry.semaphore?.release(entry);
      this.#insert(entry, "first");
      this.#options.watch(entry.expiresAtMs);
    }
    this.#sessions.advance(returned.map(({ owner }) => owner));
    for (const [semaphore, entries] of Map.groupBy(returned, (entry) => entry.semaphore)) {
      semaphore?.waiting.advance(entries.map(({ owner }) => owner));
    }
    if (this.#isEnded) this.refuseAll();
  }

  /** Makes client requests wait until `unblock`, even if the server is ready. */
  block(block: Block): void {
    this.#blocks.add(block);
  }

  unblock(block: Block): void {
    if (this.#blocks.delete(block)) this.release();
  }

  /** Releases all entries that can be sent now. */
  release(): void {
    // An entry may end while it is released, which calls this again. The outer loop then uses the freed slot.
    if (this.size === 0 || !this.#isReady || this.#isReleasing) return;
    this.#isReleasing = true;
    try {
      for (let next = this.#next(); next !== undefined; next = this.#next()) {
        this.#take(next);
        next.release();
      }
    } finally {
      this.#isReleasing = false;
    }
  }

  /** Rejects expired entries. @returns the time at which the next entry expires, or Infinity. */
  expire(nowMs: number): number {
    let nextMs = Number.POSITIVE_INFINITY;
    for (const entry of this.#entries) {
      if (entry.expiresAtMs > nowMs) nextMs = Math.min(nextMs, entry.expiresAtMs);
      else {
        this.remove(entry);
        entry.refuse();
      }
    }
    return nextMs;
  }

  /** Rejects all entries, and those that come later: there will be no other server. */
  end(): void {
    this.#isEnded = true;
    this.refuseAll();
  }

  refuseAll(): void {
    this.expire(Number.POSITIVE_INFINITY);
  }

  /** Returns the next entry that can be sent. Skips sessions whose calls all wait for a slot of their tool. */
  #next(): QueueEntry | undefined {
    if (this.#slotCount < this.size) {
      for (const queues of this.#sessions.values()) {
        const first = queues.get(undefined)?.[0];
        if (first?.takesSlot === false) return first;
      }
    }
    if (!this.hasSlot) return undefined;
    for (const [owner, queues] of this.#sessions) {
      for (const [semaphore, [first]] of queues) if (semaphore === undefined || semaphore.isFreeFor(owner)) return first;
    }
    return undefined;
  }

  /** Removes an entry that is sent now. One that takes a slot is its session's turn, and its queue's turn in the session. */
  #take(entry: QueueEntry): void {
    const { owner, semaphore, takesSlot } = entry;
    this.remove(entry);
    semaphore?.acquire(entry);
    if (!takesSlot) return;
    this.#sessions.get(owner)?.rotate(semaphore);
    this.#sessions.rotate(owner);
    semaphore?.waiting.rotate(owner);
  }

  #insert(entry: QueueEntry, end: "first" | "last"): void {
    const { owner, semaphore } = entry;
    const queue = this.#sessions.join(owner, () => new Turns()).join(semaphore, () => []);
    semaphore?.waiting.join(owner, () => queue);
    if (end === "first") queue.unshift(entry);
    else queue.push(entry);
    this.#entries.add(entry);
    this.#count(entry, 1);
  }

  #count({ byteLength, takesSlot, held }: QueueEntry, change: 1 | -1): void {
    this.#queuedBytes += change * byteLength;
    if (takesSlot) this.#slotCount += change;
    if (takesSlot && held === undefined) this.#callCount += change;
  }

  #hasRoomWithoutSlot(owner: object): boolean {
    const { maxHeld } = this.#options;
    if (this.size - this.#slotCount >= Math.ceil(maxHeld * SHARE_WITHOUT_SLOT)) return false;
    const entries = this.#sessions.get(owner)?.get(undefined) ?? [];
    return entries.filter(({ takesSlot }) => !takesSlot).length < Math.ceil(maxHeld * OWNER_SHARE_WITHOUT_SLOT);
  }

  /** Evicts an entry of the longest session queue, if that is longer than the owner's. Entries without a slot are never evicted. */
  #makeRoom(owner: object): boolean {
    let longest: QueueEntry[][] = [];
    let length = 1 + countEntries(this.#sessions.get(owner)?.values() ?? []);
    for (const queues of this.#sessions.values()) {
      const removable = [...queues.values()].map((queue) => queue.filter(({ takesSlot }) => takesSlot));
      const count = countEntries(removable);
      if (count > length) [longest, length] = [removable, count];
    }
    const newest = longest.toSorted((a, b) => b.length - a.length)[0]?.at(-1);
    if (newest === undefined) return false;
    this.remove(newest);
    newest.refuse();
    return true;
  }
}

function countEntries(queues: Iterable<readonly QueueEntry[]>): number {
  let count = 0;
  for (const { length } of queues) count += length;
  return count;
}
