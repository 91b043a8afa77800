import { shorten } from "../../json/text.ts";

/**
 * A semaphore that limits the concurrent calls of one tool in a lane. All calls of the tool share it. It keeps the holders themselves, so
 * that each slot is released only once, however its call ends.
 */
export class ToolSemaphore {
  readonly toolName: string;
  readonly limit: number;
  readonly #holders = new Set<object>();
  /** The number of calls that wait for a slot. The queue maintains it. */
  waitingCount = 0;

  /** @param limit at least 1. */
  constructor(toolName: string, limit: number) {
    this.toolName = toolName;
    this.limit = limit;
  }

  /** The number of free slots. */
  get freeCount(): number {
    return this.limit - this.#holders.size;
  }

  /** True if a new call may be sent at once, because a slot is free and no other call waits for it. */
  get isFree(): boolean {
    return this.waitingCount === 0 && this.freeCount > 0;
  }

  /** True if no call holds a slot or waits for one. */
  get isUnused(): boolean {
    return this.waitingCount === 0 && this.#holders.size === 0;
  }

  acquire(holder: object): void {
    this.#holders.add(holder);
  }

  /** @returns true if it held a slot. */
  release(holder: object): boolean {
    return this.#holders.delete(holder);
  }

  /** Returns the reason why a call of the tool was not sent, for an error message. */
  describe(): string {
    return `tool ${shorten(this.toolName)} has ${this.limit} in flight, ${this.waitingCount} queued`;
  }
}
