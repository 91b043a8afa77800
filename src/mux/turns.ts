import { FairQueue, type Held } from "./fair-queue.ts";

export interface TurnsOptions {
  /** How many may wait. */
  readonly maxHeld: number;
  /** How many requests of clients the server may have at a time. */
  readonly maxInFlight: number;
  /** How many requests of clients were taken and have not ended, those that wait included. */
  readonly countCalls: () => number;
  /** Whether there is nothing to wait for. */
  readonly isFailed: () => boolean;
  /** Makes sure that `expire` is called then. */
  readonly watch: (deadlineMs: number) => void;
}

/** Whose turn it is: what waits goes once the server is there and, where it is a request of a client, has a slot for it. */
export class Turns {
  readonly #options: TurnsOptions;
  readonly #queue: FairQueue;
  #isReady = false;
  #areSlotsClosed = false;
  #isReleasing = false;

  constructor(options: TurnsOptions) {
    this.#options = options;
    this.#queue = new FairQueue(options.maxHeld);
  }

  get isReady(): boolean {
    return this.#isReady;
  }

  get areSlotsClosed(): boolean {
    return this.#areSlotsClosed;
  }

  /** Whether the server may have one more request of a client. */
  get hasSlot(): boolean {
    return !this.#areSlotsClosed && this.#options.countCalls() - this.#queue.slotCount < this.#options.maxInFlight;
  }

  get size(): number {
    return this.#queue.size;
  }

  /** Bytes that wait. */
  get queuedBytes(): number {
    return this.#queue.queuedBytes;
  }

  has(entry: Held): boolean {
    return this.#queue.has(entry);
  }

  /** Whether something of this flow waits. */
  hasFlow(flow: object): boolean {
    return this.#queue.hasFlow(flow);
  }

  /** Lets something wait for its turn. @returns false when too much waits, or there is nothing to wait for. */
  hold(entry: Held): boolean {
    const isHeld = !this.#options.isFailed() && this.#queue.add(entry);
    if (isHeld) this.#options.watch(entry.expiresAtMs);
    return isHeld;
  }

  remove(entry: Held): void {
    this.#queue.remove(entry);
  }

  /** What had been sent has ended: a slot of its own kind is for the next one. */
  giveBack(entry: Held): void {
    this.#queue.giveBack(entry);
  }

  /** The server is there. @param tell tells it what the former one knew, ahead of all that has waited. */
  open(tell: () => void): void {
    this.#isReady = true;
    tell();
    this.release();
  }

  /** The server is gone. @param returned what it has not seen, or is sent to the next one: ahead of the rest of its flow. */
  close(returned: readonly Held[]): void {
    this.#isReady = false;
    this.#queue.putBack(returned);
    for (const { expiresAtMs } of returned) this.#options.watch(expiresAtMs);
  }

  /** From now on requests of clients wait, whether the server is there or not. */
  closeSlots(): void {
    this.#areSlotsClosed = true;
  }

  openSlots(): void {
    this.#areSlotsClosed = false;
    this.release();
  }

  /** Sends what waits and can go now. */
  release(): void {
    // What ends as it is released frees a slot in turn: that is found by the loop, not by a loop within it.
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

  /** Refuses what has waited for too long. @returns when the next one will have, or Infinity. */
  expire(nowMs: number): number {
    return this.#queue.expire(nowMs);
  }

  /** Refuses all that waits. */
  refuseAll(): void {
    this.#queue.expire(Number.POSITIVE_INFINITY);
  }
}
