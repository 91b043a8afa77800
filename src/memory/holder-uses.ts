/** The uses of memory that clients and servers cause. */
export const MEMORY_KINDS = ["bodies", "requests", "replay", "unread", "subscriptions", "serverOutput"] as const;

export type MemoryKind = (typeof MEMORY_KINDS)[number];

/** The client that memory is used for: its principal, or else its peer address. A server's output has the server as its holder. */
export type MemoryHolder = object | string;

/** The kind of data that clients can do without. */
export const DROPPABLE_KIND: MemoryKind = "replay";
/** The kind of data that has no end of its own. */
export const LASTING_KIND: MemoryKind = "subscriptions";

interface HolderUse {
  bytes: number;
  droppableBytes: number;
  lastingBytes: number;
}

const NO_USE: Readonly<HolderUse> = { bytes: 0, droppableBytes: 0, lastingBytes: 0 };

/** The use of memory by each holder. */
export class HolderUses {
  readonly #uses = new Map<MemoryHolder, HolderUse>();

  of(holder: MemoryHolder): Readonly<HolderUse> {
    return this.#uses.get(holder) ?? NO_USE;
  }

  change(kind: MemoryKind, holder: MemoryHolder, changeBytes: number): void {
    const use = this.#uses.get(holder) ?? this.#add(holder);
    use.bytes += changeBytes;
    if (kind === DROPPABLE_KIND) use.droppableBytes += changeBytes;
    if (kind === LASTING_KIND) use.lastingBytes += changeBytes;
    if (use.bytes === 0) this.#uses.delete(holder);
  }

  #add(holder: MemoryHolder): HolderUse {
    const use = { bytes: 0, droppableBytes: 0, lastingBytes: 0 };
    this.#uses.set(holder, use);
    return use;
  }

  /** Returns the holders except this one that use more than this, the largest first. */
  above(bytes: number, except: MemoryHolder): MemoryHolder[] {
    const large = [...this.#uses].filter(([holder, use]) => use.bytes > bytes && holder !== except);
    return large.sort(([, a], [, b]) => b.bytes - a.bytes).map(([holder]) => holder);
  }
}
