import { FullTime } from "../memory/full-time.ts";
import { HOLDER_SHARE, type MemoryAccount, type MemoryBudget } from "../memory/memory-budget.ts";

/** The reader of a server's stdout, as the holder of an incomplete line. */
export interface LineHolder {
  /** The length of the incomplete line. */
  readonly lineBytes: number;
  /** Discards the incomplete line, as if it was too long. */
  discardLine(): void;
}

/** The time for which the memory is full before a line is discarded. Meanwhile, clients may make room. */
const FULL_MS = 1000;

/**
 * The memory for the output of servers. A line of one server has a limit of its own, but there may be many servers, and each may keep its
 * line incomplete for ever. If the memory stays full and incomplete lines take more than the largest line may, the longest ones are discarded.
 */
export class OutputMemory {
  readonly #budget: MemoryBudget;
  readonly #holders = new Set<LineHolder>();
  readonly #fullTime = new FullTime(FULL_MS);

  constructor(budget: MemoryBudget) {
    this.#budget = budget;
    budget.addLastRelief((bytes) => this.#discardLongest(bytes));
  }

  /** True above three quarters of the budget. */
  get isShort(): boolean {
    return this.#budget.excessBytes > 0;
  }

  /** True above the whole budget. */
  get isFull(): boolean {
    return this.#budget.usedBytes > this.#budget.limitBytes;
  }

  relieve(): void {
    this.#budget.relieve();
  }

  /** Adds a server. @returns its account. */
  add(holder: LineHolder): MemoryAccount {
    this.#holders.add(holder);
    return this.#budget.account(holder);
  }

  delete(holder: LineHolder): void {
    this.#holders.delete(holder);
  }

  #discardLongest(bytes: number): void {
    if (!this.#fullTime.hasLasted(performance.now())) return;
    const holders = [...this.#holders].sort((a, b) => b.lineBytes - a.lineBytes);
    const lineBytes = holders.reduce((sum, holder) => sum + holder.lineBytes, 0);
    let leftBytes = Math.min(bytes, lineBytes - this.#budget.limitBytes * HOLDER_SHARE);
    for (const holder of holders) {
      if (leftBytes <= 0) return;
      leftBytes -= holder.lineBytes;
      holder.discardLine();
    }
  }
}
