/** The uses of memory that clients and servers cause. */
export const MEMORY_KINDS = ["bodies", "requests", "replay", "unread", "subscriptions", "serverOutput"] as const;

export type MemoryKind = (typeof MEMORY_KINDS)[number];

/** The client that memory is used for: its principal, or else its peer address. A server's output has the server as its holder. */
export type MemoryHolder = object | string;

/** A holder may use more than this share only while the same share stays free for others. */
const HOLDER_SHARE = 1 / 4;

/** Drops data to make room. @param excessBytes the memory that should be freed. */
export type Relief = (excessBytes: number) => void;

/**
 * The memory that the sidecar holds for clients and servers, counted as memory and not as wire bytes. The sum of all kinds has one limit.
 *
 * Data that a client wants to send is refused when there is no room (`reserve`). Data that is in memory already counts in any case
 * (`hold`). Above three quarters of the limit, the reliefs make room in their order.
 */
export class MemoryBudget {
  readonly limitBytes: number;
  readonly #usedByKind: Record<MemoryKind, number> = { bodies: 0, requests: 0, replay: 0, unread: 0, subscriptions: 0, serverOutput: 0 };
  readonly #usedByHolder = new Map<MemoryHolder, number>();
  readonly #reliefs: Relief[] = [];
  #usedBytes = 0;
  #isRelieving = false;

  constructor(limitBytes: number) {
    this.limitBytes = limitBytes;
  }

  get usedBytes(): number {
    return this.#usedBytes;
  }

  /** The memory above three quarters of the limit. The last quarter is for clients that use little. */
  get excessBytes(): number {
    return Math.max(0, this.#usedBytes - this.limitBytes * (1 - HOLDER_SHARE));
  }

  /** The limit and the use of each kind, for `/status`. */
  get status(): { readonly limitBytes: number; readonly usedBytes: number } & Readonly<Record<MemoryKind, number>> {
    return { limitBytes: this.limitBytes, usedBytes: this.#usedBytes, ...this.#usedByKind };
  }

  /** Adds a way to make room. Those that were added first are used first. */
  addRelief(relief: Relief): void {
    this.#reliefs.push(relief);
  }

  /** Returns the account of a holder. */
  account(holder: MemoryHolder): MemoryAccount {
    return new MemoryAccount(this, holder);
  }

  /** True if the holder may use as many bytes more. */
  hasRoomFor(holder: MemoryHolder, bytes: number): boolean {
    const freeBytes = this.limitBytes - this.#usedBytes - bytes;
    const shareBytes = this.limitBytes * HOLDER_SHARE;
    return freeBytes >= 0 && (freeBytes >= shareBytes || (this.#usedByHolder.get(holder) ?? 0) + bytes <= shareBytes);
  }

  /** Adds bytes to the use, or removes them. Only reservations call this, so that each is released once. */
  change(kind: MemoryKind, holder: MemoryHolder, changeBytes: number): void {
    this.#usedBytes += changeBytes;
    this.#usedByKind[kind] += changeBytes;
    const used = (this.#usedByHolder.get(holder) ?? 0) + changeBytes;
    if (used === 0) this.#usedByHolder.delete(holder);
    else this.#usedByHolder.set(holder, used);
    if (changeBytes > 0 && this.excessBytes > 0) this.relieve();
  }

  /** Makes room if there is an excess, as far as possible. */
  relieve(): void {
    // A relief releases memory, and may use some for what it logs or sends.
    if (this.#isRelieving) return;
    this.#isRelieving = true;
    try {
      for (const relief of this.#reliefs) {
        if (this.excessBytes === 0) return;
        relief(this.excessBytes);
      }
    } finally {
      this.#isRelieving = false;
    }
  }
}

/** The use of memory for one holder. */
export class MemoryAccount {
  readonly holder: MemoryHolder;
  readonly #budget: MemoryBudget;

  constructor(budget: MemoryBudget, holder: MemoryHolder) {
    this.#budget = budget;
    this.holder = holder;
  }

  /** True if the holder may use as many bytes more. */
  hasRoomFor(bytes: number): boolean {
    return this.#budget.hasRoomFor(this.holder, bytes);
  }

  /** Reserves memory before it is allocated. @returns undefined if there is no room. */
  reserve(kind: MemoryKind, bytes: number): Reservation | undefined {
    return this.hasRoomFor(bytes) ? this.hold(kind, bytes) : undefined;
  }

  /** Counts memory that is in use already, even above the limit. */
  hold(kind: MemoryKind, bytes: number): Reservation {
    const reservation = new Reservation(this.#budget, kind, this.holder);
    reservation.resize(bytes);
    return reservation;
  }
}

/** Memory that is in use. Its size may change until it is released. */
export class Reservation {
  readonly #budget: MemoryBudget;
  readonly #kind: MemoryKind;
  readonly #holder: MemoryHolder;
  #bytes = 0;
  #isReleased = false;

  constructor(budget: MemoryBudget, kind: MemoryKind, holder: MemoryHolder) {
    this.#budget = budget;
    this.#kind = kind;
    this.#holder = holder;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** Reserves more before it is allocated. @returns false if there is no room; nothing has changed then. */
  tryGrow(bytes: number): boolean {
    if (!this.#budget.hasRoomFor(this.#holder, bytes)) return false;
    this.resize(this.#bytes + bytes);
    return true;
  }

  /** Sets the size to the memory that is in use now, even above the limit. Does nothing after the release. */
  resize(bytes: number): void {
    if (this.#isReleased || bytes === this.#bytes) return;
    const changeBytes = bytes - this.#bytes;
    this.#bytes = bytes;
    this.#budget.change(this.#kind, this.#holder, changeBytes);
  }

  /** Releases everything. A second call does nothing. */
  release(): void {
    this.resize(0);
    this.#isReleased = true;
  }
}
