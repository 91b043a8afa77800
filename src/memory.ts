import { totalmem } from "node:os";
import { getHeapStatistics } from "node:v8";

export const MEMORY_KINDS = ["bodies", "requests", "replay", "unread", "subscriptions", "serverOutput"] as const;

type MemoryKind = (typeof MEMORY_KINDS)[number];

/** Whose memory it is: a principal, or else a peer address. A server's output has the server as its holder. */
export type MemoryHolder = object | string;

export const ANY_HOLDER: MemoryHolder = {};

/** `droppableBytes` are of the kind `replay`. `lastingBytes` are of the kind `subscriptions`, which have no end of their own. */
const NO_USE = { bytes: 0, droppableBytes: 0, lastingBytes: 0 };

/** From this number on, holders that use nothing are forgotten. */
const MIN_HOLDERS = 64;

/** One client may use more than this share of memory and sessions only while as much stays free. */
export const HOLDER_SHARE = 1 / 4;

/** The half for one client without a session, because each serves it alone. */
export function serversPerClient(maxServers: number): number {
  return Math.ceil(maxServers / 2);
}

/**
 * `replay`: what clients can do without. `slow`: above three quarters of the limit. `full`: above the limit. `share`: of a client above its
 * share, for another one that would be refused. `abandoned`: what clients have left behind, for one that would be refused.
 */
type EvictionStage = "replay" | "slow" | "full" | "share" | "abandoned";

/**
 * What the sidecar holds for clients and servers, as memory and not as wire bytes, with one limit for all kinds.
 *
 * `reserve` is for new data. It fails if dropping all of `replay` would not make enough room. `hold` is for data that is already in memory, and
 * never fails.
 */
export class MemoryBudget {
  readonly limitBytes: number;
  usedBytes = 0;
  readonly #usedByKind: Record<MemoryKind, number> = { bodies: 0, requests: 0, replay: 0, unread: 0, subscriptions: 0, serverOutput: 0 };
  /** Also of some that use none: an entry that came and went with each call would leave old tables behind. */
  readonly #usedByHolder = new Map<MemoryHolder, typeof NO_USE>();
  #maxHolders = MIN_HOLDERS;
  readonly #shareBytes: number;
  readonly calmBytes: number;
  readonly #evictions: { readonly stage: EvictionStage; readonly evict: (holder: MemoryHolder) => Iterator<unknown> | undefined }[] = [];
  #isEvicting = false;

  constructor(limitBytes: number) {
    this.limitBytes = limitBytes;
    this.#shareBytes = limitBytes * HOLDER_SHARE;
    this.calmBytes = limitBytes * (1 - HOLDER_SHARE);
  }

  get status() {
    return { limitBytes: this.limitBytes, usedBytes: this.usedBytes, ...this.#usedByKind };
  }

  /**
   * Functions of one stage are called in the order of their addition: for `share`, lines of servers, then bodies, then requests.
   *
   * @param evict is called even if nothing is missing, so `slow` may count again first. Each step of its iterator frees a part of the holder's memory at once, until enough is free.
   */
  onShortage(stage: EvictionStage, evict: (holder: MemoryHolder) => Iterator<unknown> | undefined): void {
    this.#evictions.push({ stage, evict });
  }

  account(holder: MemoryHolder): MemoryAccount {
    return new MemoryAccount(this, holder);
  }

  /** If there is no room, memory is evicted for the next time. */
  hasRoomFor(holder: MemoryHolder, bytes: number): boolean {
    if (this.usedBytes + bytes <= this.calmBytes) return true;
    if (this.#missingBytes(holder, bytes, true) > 0) this.#evict(holder, bytes);
    return this.#missingBytes(holder, bytes, true) <= 0;
  }

  makeRoomFor(kind: MemoryKind, holder: MemoryHolder, bytes: number): boolean {
    const own = this.#useOf(holder);
    if (kind === "subscriptions" && own.lastingBytes + bytes > this.#shareBytes) return false;
    if (!this.hasRoomFor(holder, bytes)) return false;
    const missingBytes = (): number => this.#missingBytes(holder, bytes);
    if (missingBytes() <= 0) return true;
    if (own.droppableBytes > 0) this.#run("replay", missingBytes, holder);
    this.#run("replay", missingBytes);
    return missingBytes() <= 0;
  }

  /** Only reservations call this, so that each is released once. */
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

  #forgetUnused(): void {
    for (const [holder, { bytes }] of this.#usedByHolder) if (bytes === 0) this.#usedByHolder.delete(holder);
    this.#maxHolders = Math.max(MIN_HOLDERS, 2 * this.#usedByHolder.size);
  }

  relieve(): void {
    if (this.usedBytes > this.calmBytes) this.#evict();
  }

  #evict(holder?: MemoryHolder, bytes = 0): void {
    // Evictions may use some memory for what they log or send.
    if (this.#isEvicting) return;
    this.#isEvicting = true;
    try {
      const excessBytes = (): number => this.usedBytes - this.calmBytes;
      this.#run("replay", excessBytes);
      this.#run("slow", excessBytes);
      this.#run("full", () => this.usedBytes - this.limitBytes);
      if (holder !== undefined) this.#claim(holder, bytes);
    } finally {
      this.#isEvicting = false;
    }
  }

  /**
   * A client within its share takes from those above theirs, the largest first, and from what all have abandoned. Another one takes only
   * what it has abandoned itself.
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
    for (const each of this.#evictions) {
      if (each.stage !== stage) continue;
      const steps = each.evict(holder);
      while (missingBytes() > 0 && steps?.next().done === false);
    }
  }

  #useOf(holder: MemoryHolder): Readonly<typeof NO_USE> {
    return this.#usedByHolder.get(holder) ?? NO_USE;
  }

  /** @param isDropped true to count as if all droppable data was dropped. */
  #missingBytes(holder: MemoryHolder, bytes: number, isDropped = false): number {
    const own = this.#useOf(holder);
    const usedBytes = this.usedBytes - (isDropped ? this.#usedByKind.replay : 0);
    const ownBytes = own.bytes - (isDropped ? own.droppableBytes : 0);
    return usedBytes + bytes - this.limitBytes + (ownBytes + bytes > this.#shareBytes ? this.#shareBytes : 0);
  }
}

/** The memory of one request or session of a holder. */
export class MemoryAccount {
  readonly budget: MemoryBudget;
  readonly holder: MemoryHolder;
  lastingBytes = 0;

  constructor(budget: MemoryBudget, holder: MemoryHolder) {
    this.budget = budget;
    this.holder = holder;
  }

  /** Reserves before the allocation. @returns undefined if there is no room. */
  reserve(kind: MemoryKind, bytes: number): Reservation | undefined {
    return this.budget.makeRoomFor(kind, this.holder, bytes) ? this.hold(kind, bytes) : undefined;
  }

  hold(kind: MemoryKind, bytes: number): Reservation {
    return new Reservation(this, kind, bytes);
  }
}

export class Reservation {
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

  /** Reserves before the allocation. @returns false if there is no room; nothing has changed then. */
  tryGrow(bytes: number): boolean {
    if (!this.#account.budget.makeRoomFor(this.#kind, this.#account.holder, bytes)) return false;
    this.resize(this.bytes + bytes);
    return true;
  }

  /** Counts what is used now, even above the limit. Does nothing after the release. */
  resize(bytes: number): void {
    if (this.#isReleased || bytes === this.bytes) return;
    const changeBytes = bytes - this.bytes;
    this.bytes = bytes;
    this.#account.budget.change(this.#kind, this.#account, changeBytes);
  }

  release(): void {
    this.resize(0);
    this.#isReleased = true;
  }
}

/** With any character beyond Latin-1, V8 needs two bytes for each UTF-16 unit. Latin-1 itself counts twice, too. */
export function textMemoryBytes(text: string, byteLength = Buffer.byteLength(text)): number {
  return byteLength === text.length ? byteLength : text.length * 2;
}

/**
 * Room that costs clients something is made only after a while.
 *
 * @returns a function to be called whenever the memory is full: true if it has been so for `minMs`, without a pause of that length.
 */
export function lastingTime(minMs: number): (nowMs: number) => boolean {
  let sinceMs = 0;
  let untilMs = -Infinity;
  return (nowMs) => {
    if (nowMs - untilMs > minMs) sinceMs = nowMs;
    untilMs = nowMs;
    return nowMs - sinceMs >= minMs;
  };
}

const MIB = 1024 * 1024;
/** An idle sidecar with a small server, and garbage that V8 has not collected yet: a flood of rejected bodies needs about 25 MB. */
const OVERHEAD_BYTES = 56 * MIB;
const SHARE_OF_MEMORY = 1 / 4;
const SHARE_OF_HEAP = 1 / 2;
const MIN_BYTES = 2 * MIB;
const MAX_BYTES = 256 * MIB;

/**
 * The default of MEMORY_BUDGET_BYTES.
 *
 * @param memoryBytes that of the container, or else of the machine. Without a limit, a container has a number above all memory; without
 * control groups, a system has 0.
 * @param heapBytes half of V8's heap is a limit too, for an operator who has set a small one.
 */
export function defaultBudgetBytes(
  memoryBytes = Math.min(process.constrainedMemory() || totalmem(), totalmem()),
  heapBytes = getHeapStatistics().heap_size_limit,
): number {
  return Math.floor(Math.max(MIN_BYTES, Math.min(MAX_BYTES, (memoryBytes - OVERHEAD_BYTES) * SHARE_OF_MEMORY, heapBytes * SHARE_OF_HEAP)));
}

/** The parts, the text, and the copy between them exist together for a moment. */
export const BODY_COPIES = 3;
const PART_BYTES = 256;
/**
 * With its copies, such a body takes three fifths of the budget. A client may use three quarters. The rest is for the parts, even if each
 * has only 350 bytes.
 */
const LARGEST_BODY_SHARE = 1 / 5;

export function partMemoryBytes(partBytes: number): number {
  return partBytes * BODY_COPIES + PART_BYTES;
}

export function largestBodyBytes(budgetBytes: number): number {
  return Math.floor(budgetBytes * LARGEST_BODY_SHARE);
}

/** Forgets the oldest key above its size. */
export class RecentMap<Key, Value> extends Map<Key, Value> {
  readonly #maxSize: number;

  constructor(maxSize: number) {
    super();
    this.#maxSize = maxSize;
  }

  override set(key: Key, value: Value): this {
    super.set(key, value);
    for (const oldest of this.keys()) {
      if (this.size <= this.#maxSize) break;
      this.delete(oldest);
    }
    return this;
  }
}

export class Place<Value> {
  /** Undefined only for the end. */
  value: Value | undefined;
  /** This place itself if it is in no order. */
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
 * A value moves or leaves at the same cost, wherever it is. In a Set, each search for the first value would pass the places of removed
 * ones.
 */
export class LinkedOrder<Value> {
  readonly #end = new Place<Value>();

  get first(): Place<Value> | undefined {
    const { later } = this.#end;
    return later === this.#end ? undefined : later;
  }

  /** Values before it leave the order, and come back at the end of their use. So each use pays for at most one step. */
  firstFree(isFree: (value: Value) => boolean): Value | undefined {
    for (let { first } = this; first !== undefined; first = this.first) {
      if (first.value !== undefined && isFree(first.value)) return first.value;
      first.leave();
    }
    return undefined;
  }

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
