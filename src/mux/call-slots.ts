import { shorten } from "../json/text.ts";

/**
 * How many calls of one tool a server process may have at a time, and which it has. Shared by all calls of the tool in a lane. What has
 * taken a slot is kept itself, so that a slot is given back once, however its call ends.
 */
export class CallSlots {
  readonly toolName: string;
  readonly limit: number;
  readonly #holders = new Set<object>();
  /** How many calls wait for a slot. Kept by the queue that they wait in. */
  waitingCount = 0;

  /** @param limit at least 1. */
  constructor(toolName: string, limit: number) {
    this.toolName = toolName;
    this.limit = limit;
  }

  /** How many more the server may have now. */
  get freeCount(): number {
    return this.limit - this.#holders.size;
  }

  /** Whether one that comes now may go at once, and overtakes nobody. */
  get isOpen(): boolean {
    return this.waitingCount === 0 && this.freeCount > 0;
  }

  /** Whether it makes no difference to forget it. */
  get isUnused(): boolean {
    return this.waitingCount === 0 && this.#holders.size === 0;
  }

  take(holder: object): void {
    this.#holders.add(holder);
  }

  /** @returns whether it had one. */
  giveBack(holder: object): boolean {
    return this.#holders.delete(holder);
  }

  /** Why a call of the tool could not be sent. */
  describe(): string {
    return `tool ${shorten(this.toolName)} has ${this.limit} in flight, ${this.waitingCount} queued`;
  }
}
