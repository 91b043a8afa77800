import { FullTime } from "../memory/full-time.ts";
import { HOLDER_SHARE, type MemoryAccount, type MemoryBudget, type MemoryHolder } from "../memory/memory-budget.ts";

/** The reader of a server's stdout, as the holder of an incomplete line. */
export interface LineHolder {
  /** The length of the incomplete line. */
  readonly lineBytes: number;
  /** Discards the incomplete line, as if it was too long. */
  discardLine(): void;
}

/** The memory for the output of one server. */
export interface ServerMemory {
  /** True above three quarters of the budget. */
  readonly isShort: boolean;
  /** Makes room if memory is short. */
  relieve(): void;
  /** Adds the reader of the output. @returns its account. */
  add(reader: LineHolder): MemoryAccount;
  delete(reader: LineHolder): void;
}

/** The time for which memory is short before a line is discarded. Meanwhile, clients may make room. */
const SHORT_MS = 1000;

/**
 * The memory for the output of all servers. A line of one server has a limit of its own, but there may be many servers, and each may keep its
 * line incomplete for ever. If memory stays short and incomplete lines take more than the largest line may, the longest ones are discarded.
 * The output of a private server counts for its client, so its lines also make room when another client asks for its share.
 */
export class OutputMemory {
  readonly #budget: MemoryBudget;
  /** The readers, and the client of each; undefined for a shared server. */
  readonly #readers = new Map<LineHolder, MemoryHolder | undefined>();
  readonly #shortTime = new FullTime(SHORT_MS);

  constructor(budget: MemoryBudget) {
    this.#budget = budget;
    budget.addRelief((excessBytes) => {
      if (excessBytes > 0 && this.#shortTime.hasLasted(performance.now())) this.#discardLongest(excessBytes, [...this.#readers.keys()]);
    });
    budget.addShareRelief((bytes, holder) => {
      discard(
        bytes,
        [...this.#readers].flatMap(([reader, client]) => (client === holder ? [reader] : [])),
      );
    });
  }

  /** Returns the memory for one server. @param client that of a private server. */
  forServer(client?: MemoryHolder): ServerMemory {
    const budget = this.#budget;
    return {
      get isShort() {
        return budget.excessBytes > 0;
      },
      relieve: () => budget.relieve(),
      add: (reader) => {
        this.#readers.set(reader, client);
        return budget.account(client ?? reader);
      },
      delete: (reader) => void this.#readers.delete(reader),
    };
  }

  #discardLongest(bytes: number, readers: readonly LineHolder[]): void {
    const lineBytes = readers.reduce((sum, reader) => sum + reader.lineBytes, 0);
    discard(Math.min(bytes, lineBytes - this.#budget.limitBytes * HOLDER_SHARE), readers);
  }
}

/** Discards the longest lines, until this many bytes are free. */
function discard(bytes: number, readers: readonly LineHolder[]): void {
  let leftBytes = bytes;
  for (const reader of readers.toSorted((a, b) => b.lineBytes - a.lineBytes)) {
    if (leftBytes <= 0 || reader.lineBytes === 0) return;
    leftBytes -= reader.lineBytes;
    reader.discardLine();
  }
}
