import type { ToolSemaphore } from "./tool-semaphore.ts";
import { type QueueEntry, SemaphoreQueue, SessionQueue, SubQueue } from "./session-queue.ts";
import { type Link, LinkedList } from "./linked-list.ts";

export type { QueueEntry } from "./session-queue.ts";

interface Place {
  readonly subQueue: SubQueue;
  readonly link: Link<QueueEntry>;
}

/**
 * A fair queue: first in, first out within a session, and round robin between sessions. A session with a thousand entries delays another
 * one by a single entry. Calls of a tool with limited slots have their own sub-queue in each session, and so do not block the rest of it.
 * Sub-queues without a free slot are skipped. A slot that becomes free goes to the sub-queue with the longest wait since its arrival or its
 * last turn.
 *
 * The queue is bounded. If it is full, the longest session queue loses an entry to a shorter one. That and `expire` take linear time; every
 * other operation takes constant time.
 */
export class FairQueue {
  readonly #maxEntries: number;
  readonly #sessions = new Map<object, SessionQueue>();
  /** The places of all entries, in order of arrival. */
  readonly #places = new Map<QueueEntry, Place>();
  /** The session queues with an entry that only waits for a slot of the server, in the order of their turns. */
  readonly #needingSlot = new LinkedList<SessionQueue>();
  /** The sub-queues whose next entry does not need a slot, in the order of their turns. */
  readonly #needingNoSlot = new LinkedList<SubQueue>();
  readonly #semaphoreQueues = new Map<ToolSemaphore, SemaphoreQueue>();
  #slotCount = 0;
  #queuedBytes = 0;

  constructor(maxEntries: number) {
    this.#maxEntries = maxEntries;
  }

  get size(): number {
    return this.#places.size;
  }

  /** The number of entries that take a slot. */
  get slotCount(): number {
    return this.#slotCount;
  }

  /** The bytes of all entries. */
  get queuedBytes(): number {
    return this.#queuedBytes;
  }

  has(entry: QueueEntry): boolean {
    return this.#places.has(entry);
  }

  /** True if this owner has an entry without a semaphore. */
  hasEntriesOf(owner: object): boolean {
    return this.#sessions.get(owner)?.subQueues.has(undefined) === true;
  }

  /** @returns false if the queue is full and no session queue is longer than that of the entry. */
  add(entry: QueueEntry): boolean {
    if (this.#places.size >= this.#maxEntries && !this.#makeRoom(entry.owner)) return false;
    const subQueue = this.#subQueueOf(entry);
    this.#place(entry, subQueue, subQueue.entries.push(entry));
    this.#reposition(subQueue);
    return true;
  }

  /**
   * Returns released entries to the front of their sub-queues, and releases their slots. The limit does not apply, since they were
   * accepted before.
   */
  putBack(entries: readonly QueueEntry[]): void {
    for (const entry of entries) entry.semaphore?.release(entry);
    for (const entry of entries.toReversed()) {
      const subQueue = this.#subQueueOf(entry);
      this.#place(entry, subQueue, subQueue.entries.unshift(entry));
      this.#reposition(subQueue, subQueue.entries.length === 1);
    }
    for (const { semaphore } of entries) if (semaphore !== undefined) this.#reserveSlots(semaphore);
  }

  /** Removes the next entry and acquires its tool's slot. @param hasSlot false to consider only entries that take no slot. */
  next(hasSlot: boolean): QueueEntry | undefined {
    const subQueue = this.#needingNoSlot.first ?? (hasSlot ? this.#needingSlot.first?.ready.first : undefined);
    const entry = subQueue?.entries.first;
    if (subQueue === undefined || entry === undefined) return undefined;
    const { session, semaphore } = subQueue;
    this.#take(entry);
    this.#unlist(subQueue);
    semaphore?.acquire(entry);
    this.#reposition(subQueue);
    if (entry.takesSlot && session.turn !== undefined) {
      this.#needingSlot.remove(session.turn);
      session.turn = this.#needingSlot.push(session);
    }
    return entry;
  }

  remove(entry: QueueEntry): void {
    const subQueue = this.#take(entry);
    if (subQueue !== undefined) this.#reposition(subQueue);
  }

  /** Releases the tool's slot of an entry that has ended. */
  releaseSlot(entry: QueueEntry): void {
    if (entry.semaphore?.release(entry) === true) this.#reserveSlots(entry.semaphore);
  }

  /** Rejects expired entries. @returns the time at which the next entry expires, or Infinity. */
  expire(nowMs: number): number {
    let nextMs = Number.POSITIVE_INFINITY;
    for (const entry of this.#places.keys()) {
      if (entry.expiresAtMs > nowMs) nextMs = Math.min(nextMs, entry.expiresAtMs);
      else {
        this.remove(entry);
        entry.refuse();
      }
    }
    return nextMs;
  }

  #subQueueOf({ owner, semaphore }: QueueEntry): SubQueue {
    let session = this.#sessions.get(owner);
    if (session === undefined) this.#sessions.set(owner, (session = new SessionQueue(owner)));
    let subQueue = session.subQueues.get(semaphore);
    if (subQueue === undefined) session.subQueues.set(semaphore, (subQueue = new SubQueue(session, semaphore)));
    return subQueue;
  }

  #place(entry: QueueEntry, subQueue: SubQueue, link: Link<QueueEntry>): void {
    this.#places.set(entry, { subQueue, link });
    this.#count(entry, subQueue, 1);
  }

  #take(entry: QueueEntry): SubQueue | undefined {
    const place = this.#places.get(entry);
    if (place === undefined) return undefined;
    const { subQueue, link } = place;
    this.#places.delete(entry);
    subQueue.entries.remove(link);
    this.#count(entry, subQueue, -1);
    return subQueue;
  }

  #count({ byteLength, takesSlot, semaphore }: QueueEntry, subQueue: SubQueue, change: 1 | -1): void {
    this.#queuedBytes += change * byteLength;
    subQueue.session.size += change;
    if (semaphore !== undefined) semaphore.waitingCount += change;
    if (!takesSlot) return;
    subQueue.slotCount += change;
    subQueue.session.slotCount += change;
    this.#slotCount += change;
  }

  /** Moves a sub-queue to the list that its first entry belongs to: to the end, unless it can keep its place. */
  #reposition(subQueue: SubQueue, isNext = false): void {
    const { entries, semaphore, turns } = subQueue;
    const { first } = entries;
    if (first === undefined) this.#close(subQueue);
    else if (semaphore === undefined) {
      const needsSlot = first.takesSlot;
      if (turns === (needsSlot ? subQueue.session.ready : this.#needingNoSlot)) return;
      this.#unlist(subQueue);
      if (needsSlot) this.#markReady(subQueue, isNext);
      else join(subQueue, this.#needingNoSlot, isNext);
    } else if (turns === undefined) {
      join(subQueue, this.#semaphoreQueueOf(semaphore).waiting, isNext);
      if (!isNext) this.#reserveSlots(semaphore);
    }
  }

  #close(subQueue: SubQueue): void {
    const { session, semaphore } = subQueue;
    this.#unlist(subQueue);
    session.subQueues.delete(semaphore);
    if (session.subQueues.size === 0) this.#sessions.delete(session.owner);
    if (semaphore === undefined) return;
    if (semaphore.waitingCount === 0) this.#semaphoreQueues.delete(semaphore);
    else this.#reserveSlots(semaphore);
  }

  /** Makes waiting sub-queues ready, one for each free slot of the tool. */
  #reserveSlots(semaphore: ToolSemaphore): void {
    const queue = this.#semaphoreQueues.get(semaphore);
    if (queue === undefined) return;
    for (let { first } = queue.waiting; first !== undefined && queue.readyCount < semaphore.freeCount; { first } = queue.waiting) {
      this.#unlist(first);
      queue.readyCount++;
      this.#markReady(first, false);
    }
  }

  #markReady(subQueue: SubQueue, isNext: boolean): void {
    const { session } = subQueue;
    join(subQueue, session.ready, isNext);
    session.turn ??= isNext ? this.#needingSlot.unshift(session) : this.#needingSlot.push(session);
  }

  /** Removes a sub-queue from its list, and its session queue too if no other sub-queue of it is ready. */
  #unlist(subQueue: SubQueue): void {
    const { session, semaphore, turns, turn } = subQueue;
    if (turns === undefined || turn === undefined) return;
    turns.remove(turn);
    subQueue.turns = undefined;
    if (turns !== session.ready) return;
    if (semaphore !== undefined) this.#semaphoreQueueOf(semaphore).readyCount--;
    if (session.ready.length > 0 || session.turn === undefined) return;
    this.#needingSlot.remove(session.turn);
    session.turn = undefined;
  }

  #semaphoreQueueOf(semaphore: ToolSemaphore): SemaphoreQueue {
    let queue = this.#semaphoreQueues.get(semaphore);
    if (queue === undefined) this.#semaphoreQueues.set(semaphore, (queue = new SemaphoreQueue()));
    return queue;
  }

  /** Evicts an entry of the longest session queue, if that is longer than the owner's. Entries without a slot are never evicted. */
  #makeRoom(owner: object): boolean {
    let longest: SessionQueue | undefined;
    for (const session of this.#sessions.values()) if (session.slotCount > (longest?.slotCount ?? 0)) longest = session;
    if (longest === undefined || longest.slotCount <= (this.#sessions.get(owner)?.size ?? 0) + 1) return false;
    const newest = longest.evictionCandidate;
    if (newest === undefined) return false;
    this.remove(newest);
    newest.refuse();
    return true;
  }
}

function join(subQueue: SubQueue, turns: LinkedList<SubQueue>, isNext: boolean): void {
  subQueue.turns = turns;
  subQueue.turn = isNext ? turns.unshift(subQueue) : turns.push(subQueue);
}
