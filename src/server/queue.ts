import type { Context } from "../context.ts";
import { HOLDER_SHARE } from "../memory.ts";
import type { Upstream } from "../process/port.ts";
import { type Call, type Semaphore, Turns } from "./call.ts";

/** The part of the queue for messages of clients that need no slot. They are never evicted. */
const SHARE_WITHOUT_SLOT = 1 / 2;

type OwnerQueues = Turns<Semaphore | undefined, Call[]>;

/**
 * The calls that wait for the server and, if they need them, for a slot of it (MAX_IN_FLIGHT) and of their tool. Calls that need no
 * slot go first.
 *
 * Owners take turns: one with a thousand calls delays another one by a single call. Calls of a tool with limited slots have a queue of
 * their own for each owner, and so do not block the rest of it. These take turns as well; those without a free slot are skipped, and their
 * owner keeps its place.
 *
 * If the queue is full, the longest queue of an owner loses a call to a shorter one. Calls that need no slot are not evicted, but have a
 * limit. Those of the sidecar have none, because what causes them has one.
 */
export class RequestQueue {
  readonly #context: Context;
  readonly #upstream: Upstream;
  readonly #admit: (call: Call) => void;
  readonly #reject: (call: Call) => void;
  readonly entries = new Set<Call>();
  readonly #owners = new Turns<object, OwnerQueues>();
  length = 0;
  #lengthWithSlot = 0;
  /** Calls whose arguments are checked count too. */
  queuedBytes = 0;
  /** Below 0 if calls have taken slots above the limit. */
  #freeSlots: number;
  isReady = false;
  /** Why client requests wait although the server is ready: its tools are not listed, or it waits for a client. */
  readonly blocks = new Set<"tools" | "question">();
  #isReleasing = false;
  #isEnded = false;

  constructor(context: Context, upstream: Upstream, admit: (call: Call) => void, reject: (call: Call) => void) {
    this.#context = context;
    this.#freeSlots = context.config.maxInFlight;
    this.#upstream = upstream;
    this.#admit = admit;
    this.#reject = reject;
  }

  /** @returns undefined if the queue is full, or if there is no server any more. */
  enter(call: Call): "open" | "queued" | undefined {
    const { kind, needsSlot, owner, semaphore } = call;
    const { maxHeldRequests } = this.#context.config;
    const mayPass = needsSlot ? this.#freeSlots > 0 && this.blocks.size === 0 : this.#owners.get(owner)?.has(semaphore) !== true;
    if (mayPass && this.isReady && semaphore?.isFree !== false) {
      this.take(call);
      return "open";
    }
    // What causes those in the background has a limit, and they end with the server.
    const isInTurn = kind === "sidecar" && semaphore !== undefined;
    if (!isInTurn && this.#isOver) return undefined;
    if (kind !== "sidecar") {
      if (!needsSlot && !this.#hasRoomWithoutSlot(owner)) return undefined;
      if (this.length >= maxHeldRequests && !this.#makeRoom(owner)) return undefined;
    }
    this.#insert(call, "last");
    return "queued";
  }

  remove(call: Call): void {
    if (!this.entries.delete(call)) return;
    this.#count(call, -1);
    const { owner, semaphore } = call;
    const queues = this.#owners.get(owner);
    const queue = queues?.get(semaphore);
    queue?.splice(queue.indexOf(call), 1);
    if (queue === undefined || queue.length > 0) return;
    semaphore?.waiting.delete(owner);
    queues?.delete(semaphore);
    if (queues?.size === 0) this.#owners.delete(owner);
  }

  /** Calls of a lost server come first, even above the limit. */
  addReturned(returned: readonly Call[]): void {
    for (const call of returned.toReversed()) {
      this.free(call);
      this.#insert(call, "first");
    }
    const owners = new Set<object>();
    const ownersOf = new Map<Semaphore, Set<object>>();
    for (const { owner, semaphore } of returned) {
      owners.add(owner);
      if (semaphore !== undefined) ownersOf.set(semaphore, (ownersOf.get(semaphore) ?? new Set()).add(owner));
    }
    this.#owners.advance([...owners]);
    for (const [semaphore, own] of ownersOf) semaphore.waiting.advance([...own]);
    if (this.#isOver) this.#rejectAll();
  }

  unblock(block: "tools" | "question"): void {
    if (this.blocks.delete(block)) this.release();
  }

  /** Takes a slot even above the limit. A request that waits goes on elsewhere, and takes none. */
  take(call: Call): void {
    call.semaphore?.acquire(call);
    if (call.kind !== "client") return;
    this.#freeSlots--;
    call.hasSlot = true;
  }

  free(call: Call): void {
    call.semaphore?.release(call);
    if (call.hasSlot) this.#freeSlots++;
    call.hasSlot = false;
    if (this.entries.size > 0) this.release();
  }

  release(): void {
    // A call may end while it is sent, which calls this again. The outer loop then uses the freed slot.
    if (this.entries.size === 0 || !this.isReady || this.#isReleasing) return;
    this.#isReleasing = true;
    try {
      for (let next = this.#next(); next !== undefined; next = this.#next()) {
        const { owner, semaphore } = next;
        this.remove(next);
        this.take(next);
        // A call that needs a slot is its owner's turn, and its queue's turn for the owner.
        if (next.needsSlot) {
          this.#owners.get(owner)?.rotate(semaphore);
          this.#owners.rotate(owner);
          semaphore?.waiting.rotate(owner);
        }
        this.#admit(next);
      }
    } finally {
      this.#isReleasing = false;
    }
  }

  end(): void {
    this.#isEnded = true;
    this.#rejectAll();
  }

  get #isOver(): boolean {
    return this.#isEnded || this.#upstream.status().state === "failed";
  }

  #rejectAll(): void {
    for (const call of this.entries) this.#reject(call);
  }

  #next(): Call | undefined {
    const next = this.#lengthWithSlot < this.entries.size ? this.#first(false) : undefined;
    return next ?? (this.#freeSlots > 0 && this.blocks.size === 0 ? this.#first(true) : undefined);
  }

  #first(needsSlot: boolean): Call | undefined {
    for (const [owner, queues] of this.#owners) {
      for (const [semaphore, [first]] of queues)
        if (first?.needsSlot === needsSlot && (semaphore === undefined || semaphore.isFreeFor(owner))) return first;
    }
    return undefined;
  }

  #insert(call: Call, end: "first" | "last"): void {
    const { owner, semaphore } = call;
    const queues: OwnerQueues = this.#owners.get(owner) ?? new Turns();
    const queue = queues.get(semaphore) ?? [];
    // One that is there already keeps its turn.
    this.#owners.set(owner, queues.set(semaphore, queue));
    semaphore?.waiting.set(owner, queue);
    if (end === "first") queue.unshift(call);
    else queue.push(call);
    call.state = "queued";
    this.entries.add(call);
    this.#count(call, 1);
  }

  #count(call: Call, change: 1 | -1): void {
    if (call.kind === "sidecar") return;
    this.length += change;
    this.queuedBytes += change * call.byteLength;
    if (call.needsSlot) this.#lengthWithSlot += change;
  }

  #hasRoomWithoutSlot(owner: object): boolean {
    const { maxHeldRequests } = this.#context.config;
    if (this.length - this.#lengthWithSlot >= Math.ceil(maxHeldRequests * SHARE_WITHOUT_SLOT)) return false;
    const calls = this.#owners.get(owner)?.get(undefined) ?? [];
    return calls.filter(({ needsSlot }) => !needsSlot).length < Math.ceil(maxHeldRequests * HOLDER_SHARE);
  }

  #makeRoom(owner: object): boolean {
    let longest: Call[][] = [];
    let length = 1 + [...(this.#owners.get(owner)?.values() ?? [])].flat().length;
    for (const queues of this.#owners.values()) {
      const removable = [...queues.values()].map((queue) => queue.filter(({ needsSlot }) => needsSlot));
      const count = removable.flat().length;
      if (count > length) [longest, length] = [removable, count];
    }
    const newest = longest.toSorted((a, b) => b.length - a.length)[0]?.at(-1);
    if (newest === undefined) return false;
    this.#reject(newest);
    return true;
  }
}
