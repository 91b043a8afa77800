import { totalmem } from "node:os";
import { getHeapStatistics } from "node:v8";

/** The uses of memory that clients and servers cause. */
export const MEMORY_KINDS = ["bodies", "requests", "replay", "unread", "subscriptions", "serverOutput"] as const;

type MemoryKind = (typeof MEMORY_KINDS)[number];

/** The client that memory is used for: its principal, or else its peer address. A server's output has the server as its holder. */
export type MemoryHolder = object | string;

/** For an eviction that may free the memory of any holder. */
export const ANY_HOLDER: MemoryHolder = {};

/** `droppableBytes` are those of `replay`, without which clients can do. `lastingBytes` are those of `subscriptions`, which have no end of their own. */
const NO_USE = { bytes: 0, droppableBytes: 0, lastingBytes: 0 };

/** The number of holders from which on those that use no memory are forgotten. */
const MIN_HOLDERS = 64;

/** The share of one client: of the memory, the sessions, the parked calls and the queue. It may use more memory and sessions only while the same share stays free. */
export const HOLDER_SHARE = 1 / 4;

/** Returns the number of servers that one client without a session may have: the half, because each serves it alone. */
export function serversPerClient(maxServers: number): number {
  return Math.ceil(maxServers / 2);
}

/**
 * When memory is evicted. `replay`: the oldest events go first. `slow`: above three quarters of the limit; also called with 0 bytes, to count
 * again what may be less by now. `full`: above the limit. `share`: of a client above its share, for another one that asks for its share and
 * would be refused. `abandoned`: what clients have left behind, for a client that would be refused.
 */
type EvictionStage = "replay" | "slow" | "full" | "share" | "abandoned";

/**
 * The memory that the sidecar holds for clients and servers, counted as memory and not as wire bytes. The sum of all kinds has one limit.
 *
 * New data of a client is refused if there is no room even after data that clients can do without is dropped (`reserve`). Data that is
 * already in memory is always counted, even above the limit (`hold`). Above three quarters of the limit, and for a client that would be
 * refused, memory is evicted: data that clients can do without goes first.
 */
export class MemoryBudget {
  readonly limitBytes: number;
  /** Only reservations change it. */
  usedBytes = 0;
  readonly #usedByKind: Record<MemoryKind, number> = { bodies: 0, requests: 0, replay: 0, unread: 0, subscriptions: 0, serverOutput: 0 };
  /** Also of some holders that use none: an entry that came and went with each call would leave old tables of the map behind. */
  readonly #usedByHolder = new Map<MemoryHolder, typeof NO_USE>();
  #maxHolders = MIN_HOLDERS;
  readonly #shareBytes: number;
  /** Three quarters of the limit. The last quarter is for clients that use little. */
  readonly calmBytes: number;
  readonly #evictions: { readonly stage: EvictionStage; readonly evict: (bytes: number, holder: MemoryHolder) => void }[] = [];
  #isEvicting = false;

  constructor(limitBytes: number) {
    this.limitBytes = limitBytes;
    this.#shareBytes = limitBytes * HOLDER_SHARE;
    this.calmBytes = limitBytes * (1 - HOLDER_SHARE);
  }

  /** The limit and the use of each kind, for `/status`. */
  get status(): { readonly limitBytes: number; readonly usedBytes: number } & Readonly<Record<MemoryKind, number>> {
    return { limitBytes: this.limitBytes, usedBytes: this.usedBytes, ...this.#usedByKind };
  }

  /** Adds a function that frees this much memory of a holder, as far as it can. In a stage, the function that was added first is called first. */
  onShortage(stage: EvictionStage, evict: (bytes: number, holder: MemoryHolder) => void): void {
    this.#evictions.push({ stage, evict });
  }

  account(holder: MemoryHolder): MemoryAccount {
    return new MemoryAccount(this, holder);
  }

  /** True if `makeRoomFor` would succeed now. If not, memory is evicted, so that it may succeed later. */
  hasRoomFor(holder: MemoryHolder, bytes: number): boolean {
    if (this.usedBytes + bytes <= this.calmBytes) return true;
    if (this.#missingBytes(holder, bytes, true) > 0) this.#evict(holder, bytes);
    return this.#missingBytes(holder, bytes, true) <= 0;
  }

  /** Drops data if the holder cannot use this many bytes more otherwise: first the holder's own. @returns false if there is no room. */
  makeRoomFor(kind: MemoryKind, holder: MemoryHolder, bytes: number): boolean {
    const own = this.#useOf(holder);
    if (kind === "subscriptions" && own.lastingBytes + bytes > this.#shareBytes) return false;
    if (!this.hasRoomFor(holder, bytes)) return false;
    const missingBytes = (): number => this.#missingBytes(holder, bytes);
    if (own.droppableBytes > 0) this.#run("replay", missingBytes, holder);
    this.#run("replay", missingBytes);
    return missingBytes() <= 0;
  }

  /** Adds bytes to the use, or removes them. Only reservations call this, so that each is released once. */
  change(kind: MemoryKind, account: MemoryAccount, changeBytes: number): void {
    const { holder } = account;
    this.usedBytes += changeBytes;
    this.#usedByKind[kind] += changeBytes;
    let use = this.#usedByHolder.get(holder);
    if (use === undefined) {
      if (this.#usedByHolder.size >= this.#maxHolders) this.#forgetUnused();
      this.#usedByHolder.set(holder, (use = { ...NO_USE }));
    }
    use.bytes += changeBytes;
    if (kind === "replay") use.droppableBytes += changeBytes;
    if (kind === "subscriptions") {
      use.lastingBytes += changeBytes;
      account.lastingBytes += changeBytes;
    }
    if (changeBytes > 0 && this.usedBytes > this.calmBytes) this.#evict();
  }

  /** Forgets the holders that use no memory. Runs when their number has doubled. */
  #forgetUnused(): void {
    for (const [holder, { bytes }] of this.#usedByHolder) if (bytes === 0) this.#usedByHolder.delete(holder);
    this.#maxHolders = Math.max(MIN_HOLDERS, 2 * this.#usedByHolder.size);
  }

  /** Makes room if there is an excess, as far as possible. */
  relieve(): void {
    if (this.usedBytes > this.calmBytes) this.#evict();
  }

  /** @param holder one that would be refused; undefined if there is only an excess. */
  #evict(holder?: MemoryHolder, bytes = 0): void {
    // Evictions may use some memory for what they log or send.
    if (this.#isEvicting) return;
    this.#isEvicting = true;
    try {
      const excessBytes = (): number => Math.max(0, this.usedBytes - this.calmBytes);
      this.#run("replay", excessBytes);
      for (const { stage, evict } of this.#evictions) if (stage === "slow") evict(excessBytes(), ANY_HOLDER);
      this.#run("full", () => this.usedBytes - this.limitBytes);
      if (holder !== undefined) this.#claim(holder, bytes);
    } finally {
      this.#isEvicting = false;
    }
  }

  /**
   * Makes room for a holder that would be refused. One that asks for its share takes from those above theirs, the largest first, and from
   * what all have abandoned; another one only from what it has abandoned itself.
   */
  #claim(holder: MemoryHolder, bytes: number): void {
    const own = this.#useOf(holder);
    const isInShare = own.bytes - own.droppableBytes + bytes <= this.#shareBytes;
    const missingBytes = (): number => this.#missingBytes(holder, bytes, true);
    const large = [...this.#usedByHolder].filter(([each, use]) => isInShare && use.bytes > this.#shareBytes && each !== holder);
    for (const [other] of large.sort(([, a], [, b]) => b.bytes - a.bytes))
      this.#run("share", () => Math.min(missingBytes(), this.#useOf(other).bytes - this.#shareBytes), other);
    this.#run("abandoned", missingBytes, isInShare ? ANY_HOLDER : holder);
  }

  #run(stage: EvictionStage, missingBytes: () => number, holder = ANY_HOLDER): void {
    for (const each of this.#evictions) if (each.stage === stage && missingBytes() > 0) each.evict(missingBytes(), holder);
  }

  #useOf(holder: MemoryHolder): Readonly<typeof NO_USE> {
    return this.#usedByHolder.get(holder) ?? NO_USE;
  }

  /**
   * Returns how much must be freed before the holder can use this many bytes more; 0 or less if nothing.
   *
   * @param isDropped true to count as if all droppable data was dropped.
   */
  #missingBytes(holder: MemoryHolder, bytes: number, isDropped = false): number {
    const own = this.#useOf(holder);
    const usedBytes = this.usedBytes - (isDropped ? this.#usedByKind.replay : 0);
    const ownBytes = own.bytes - (isDropped ? own.droppableBytes : 0);
    return usedBytes + bytes - this.limitBytes + (ownBytes + bytes > this.#shareBytes ? this.#shareBytes : 0);
  }
}

/** The use of memory for one holder: by one of its requests, or by one of its sessions. */
export class MemoryAccount {
  readonly budget: MemoryBudget;
  readonly holder: MemoryHolder;
  /** The memory of data that has no end of its own. */
  lastingBytes = 0;

  constructor(budget: MemoryBudget, holder: MemoryHolder) {
    this.budget = budget;
    this.holder = holder;
  }

  /** Reserves memory before it is allocated. @returns undefined if there is no room. */
  reserve(kind: MemoryKind, bytes: number): Reservation | undefined {
    return this.budget.makeRoomFor(kind, this.holder, bytes) ? this.hold(kind, bytes) : undefined;
  }

  /** Counts memory that is in use already, even above the limit. */
  hold(kind: MemoryKind, bytes: number): Reservation {
    return new Reservation(this, kind, bytes);
  }
}

/** Memory that is in use. Its size may change until it is released. */
export class Reservation {
  /** Only this object changes it. */
  bytes: number;
  readonly #account: MemoryAccount;
  readonly #kind: MemoryKind;
  #isReleased = false;

  constructor(account: MemoryAccount, kind: MemoryKind, bytes: number) {
    this.bytes = bytes;
    this.#account = account;
    this.#kind = kind;
    account.budget.change(kind, account, bytes);
  }

  /** Reserves more before it is allocated. @returns false if there is no room; nothing has changed then. */
  tryGrow(bytes: number): boolean {
    if (!this.#account.budget.makeRoomFor(this.#kind, this.#account.holder, bytes)) return false;
    this.resize(this.bytes + bytes);
    return true;
  }

  /** Sets the size to the memory that is in use now, even above the limit. Does nothing after the release. */
  resize(bytes: number): void {
    if (this.#isReleased || bytes === this.bytes) return;
    const changeBytes = bytes - this.bytes;
    this.bytes = bytes;
    this.#account.budget.change(this.#kind, this.#account, changeBytes);
  }

  /** Releases everything. A second call does nothing. */
  release(): void {
    this.resize(0);
    this.#isReleased = true;
  }
}

/**
 * Returns the memory that V8 needs for a text, in bytes. With any character beyond Latin-1, each UTF-16 unit needs two bytes. Latin-1 itself
 * is not told apart from these: its texts count twice.
 *
 * @param byteLength the UTF-8 length of the text.
 */
export function textMemoryBytes(text: string, byteLength = Buffer.byteLength(text)): number {
  return byteLength === text.length ? byteLength : text.length * 2;
}

/**
 * Measures how long the memory has been full. Room that costs clients something is made only after a while.
 *
 * @returns a function to be called whenever the memory is full. It returns true if it has been called for the minimum, without a pause of that
 *   length between two calls.
 */
export function lastingTime(minMs: number): (nowMs: number) => boolean {
  let sinceMs = 0;
  let untilMs = Number.NEGATIVE_INFINITY;
  return (nowMs) => {
    if (nowMs - untilMs > minMs) sinceMs = nowMs;
    untilMs = nowMs;
    return nowMs - sinceMs >= minMs;
  };
}

const MIB = 1024 * 1024;
/**
 * The memory of an idle sidecar with a small server, and of garbage that V8 has not collected yet. Bodies that are rejected become garbage
 * too, so a flood of them needs about 25 MB even if the budget is unused.
 */
const OVERHEAD_BYTES = 56 * MIB;
const SHARE_OF_MEMORY = 1 / 4;
const SHARE_OF_HEAP = 1 / 2;
const MIN_BYTES = 2 * MIB;
const MAX_BYTES = 256 * MIB;

/**
 * Returns the default of MEMORY_BUDGET_BYTES: a quarter of the memory above 56 MiB, at least 2 MiB and at most 256 MiB.
 *
 * @param memoryBytes the memory of the container, or else of the machine. A container without a limit has a number above all memory, and a
 * system without control groups 0.
 * @param heapBytes the limit of V8's heap. Half of it is a limit too, which matters only if the operator has set a small heap.
 */
export function defaultBudgetBytes(
  memoryBytes = Math.min(process.constrainedMemory() || totalmem(), totalmem()),
  heapBytes = getHeapStatistics().heap_size_limit,
): number {
  return Math.floor(Math.max(MIN_BYTES, Math.min(MAX_BYTES, (memoryBytes - OVERHEAD_BYTES) * SHARE_OF_MEMORY, heapBytes * SHARE_OF_HEAP)));
}

/** The parts of a body, its text, and the copy between them exist together for a moment. */
export const BODY_COPIES = 3;
/** The memory of a part besides its bytes. */
const PART_BYTES = 256;
/**
 * With its copies, a body of this share takes three fifths of the budget. A single client may use three quarters. The difference is for the
 * parts of the body, even if each has only 350 bytes.
 */
const LARGEST_BODY_SHARE = 1 / 5;

/** Returns the memory of a part of an arriving body. */
export function partMemoryBytes(partBytes: number): number {
  return partBytes * BODY_COPIES + PART_BYTES;
}

/** Returns the size of the largest body that is accepted when nothing else is in memory. */
export function largestBodyBytes(budgetBytes: number): number {
  return Math.floor(budgetBytes * LARGEST_BODY_SHARE);
}

/** The place of a value in an order. */
export class Place<Value> {
  /** Undefined only for the end of an order. */
  value: Value | undefined;
  /** Both are this place itself if it is in no order. */
  earlier: Place<Value> = this;
  later: Place<Value> = this;

  constructor(value?: Value) {
    this.value = value;
  }

  get isInOrder(): boolean {
    return this.later !== this;
  }

  leave(): void {
    this.earlier.later = this.later;
    this.later.earlier = this.earlier;
    this.earlier = this;
    this.later = this;
  }
}

/**
 * Values in an order, as a linked list: a value moves or leaves at the same cost, wherever it is. In a Set, each search for the first value
 * would pass all places of removed values, and a kept iterator would hold them in memory.
 */
export class LinkedOrder<Value> {
  readonly #end = new Place<Value>();

  /** The first place; undefined if the order is empty. */
  get first(): Place<Value> | undefined {
    const { later } = this.#end;
    return later === this.#end ? undefined : later;
  }

  /**
   * Returns the first value that is free. Those before it leave the order, and come back at the end of their use. So each use pays for at
   * most one step of a search.
   */
  firstFree(isFree: (value: Value) => boolean): Value | undefined {
    for (let { first } = this; first !== undefined; first = this.first) {
      if (first.value !== undefined && isFree(first.value)) return first.value;
      first.leave();
    }
    return undefined;
  }

  /** Moves a place to the end, or adds it there. */
  moveToEnd(place: Place<Value>): void {
    const end = this.#end;
    if (end.earlier === place) return;
    place.leave();
    place.earlier = end.earlier;
    place.later = end;
    end.earlier.later = place;
    end.earlier = place;
  }
}
