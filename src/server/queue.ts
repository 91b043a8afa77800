import type { Context } from "../context.ts";
import type { Upstream } from "../process/port.ts";
import type { Timer } from "../timers.ts";
import { type QueueEntry, type ToolSemaphore, Turns } from "./slots.ts";

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
  readonly #context: Context;
  readonly #upstream: Upstream;
  readonly #deadlines: Timer;
  /** The calls that hold or await a slot, queued ones included. */
  openCount = 0;
  readonly entries = new Set<QueueEntry>();
  /** The queues that are not empty, by session. */
  readonly #sessions = new Turns<object, SessionQueues>();
  #slotCount = 0;
  /** The entries that are calls. A held request is not one yet. */
  #callCount = 0;
  queuedBytes = 0;
  /** True while the server is ready. Entries are released from then on. */
  isReady = false;
  /** Reasons why client requests wait although the server is ready: its tools are not listed, or it waits for a client's answer. */
  readonly blocks = new Set<"tools" | "question">();
  #isReleasing = false;
  #isEnded = false;

  /** @param deadlines must call `expire`. */
  constructor(context: Context, upstream: Upstream, deadlines: Timer) {
    this.#context = context;
    this.#upstream = upstream;
    this.#deadlines = deadlines;
  }

  /** True if the server may get another client request. */
  get hasSlot(): boolean {
    return this.blocks.size === 0 && this.openCount - this.#callCount < this.#context.config.maxInFlight;
  }

  hasEntriesOf(owner: object): boolean {
    return this.#sessions.get(owner)?.has(undefined) === true;
  }

  /** @returns false if the queue is full and no session queue is longer than that of the entry, or if the server has failed or has ended. */
  add(entry: QueueEntry): boolean {
    if (!entry.takesSlot && !this.#hasRoomWithoutSlot(entry.owner)) return false;
    if (this.#isEnded || this.#upstream.status().state === "failed") return false;
    if (this.entries.size >= this.#context.config.maxHeldRequests && !this.#makeRoom(entry.owner)) return false;
    this.#insert(entry, "last");
    return true;
  }

  remove(entry: QueueEntry): void {
    if (!this.entries.delete(entry)) return;
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

  /**
   * Closes the queue, because the server is lost.
   *
   * @param returned released entries for the next server. They lose their slots and go to the front, even above the limit.
   */
  close(returned: readonly QueueEntry[]): void {
    this.isReady = false;
    for (const entry of returned.toReversed()) {
      entry.semaphore?.release(entry);
      this.#insert(entry, "first");
    }
    this.#sessions.advance(returned.map(({ owner }) => owner));
    for (const [semaphore, entries] of Map.groupBy(returned, (entry) => entry.semaphore)) {
      semaphore?.waiting.advance(entries.map(({ owner }) => owner));
    }
    if (this.#isEnded) this.refuseAll();
  }

  unblock(block: "tools" | "question"): void {
    if (this.blocks.delete(block)) this.release();
  }

  /** Releases all entries that can be sent now. */
  release(): void {
    // An entry may end while it is released, which calls this again. The outer loop then uses the freed slot.
    if (this.entries.size === 0 || !this.isReady || this.#isReleasing) return;
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
    for (const entry of this.entries) {
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
    if (this.#slotCount < this.entries.size) {
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
    this.entries.add(entry);
    this.#count(entry, 1);
    if (entry.expiresAtMs < this.#deadlines.atMs) this.#deadlines.set(entry.expiresAtMs);
  }

  #count({ byteLength, takesSlot, held }: QueueEntry, change: 1 | -1): void {
    this.queuedBytes += change * byteLength;
    if (takesSlot) this.#slotCount += change;
    if (takesSlot && held === undefined) this.#callCount += change;
  }

  #hasRoomWithoutSlot(owner: object): boolean {
    const { maxHeldRequests } = this.#context.config;
    if (this.entries.size - this.#slotCount >= Math.ceil(maxHeldRequests * SHARE_WITHOUT_SLOT)) return false;
    const entries = this.#sessions.get(owner)?.get(undefined) ?? [];
    return entries.filter(({ takesSlot }) => !takesSlot).length < Math.ceil(maxHeldRequests * OWNER_SHARE_WITHOUT_SLOT);
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
