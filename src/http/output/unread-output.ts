import type { ServerResponse } from "node:http";
import type { MemoryAccount, Reservation } from "../../memory/memory-budget.ts";

/** Unread text of a response up to which it is not counted. In UTF-16 units, as Node counts the text that waits in a socket. */
const SMALL_LENGTH = 64 * 1024;
/** A text that waits in a socket exists twice: as it was written, and in the bytes that are sent. */
const COPIES = 2;
/** The time in which a client is expected to read something. */
const SLOW_READER_MS = 1000;

export interface UnreadOutputOptions {
  readonly nowMs: () => number;
  /** Called for each connection that is closed, with its unread text in UTF-16 units. */
  readonly onCut: (unreadLength: number) => void;
}

interface Unread {
  readonly memory: Reservation;
  readonly sinceMs: number;
}

/** The responses that their clients have not read yet. They count to the memory of their clients. */
export class UnreadOutput {
  readonly #options: UnreadOutputOptions;
  /** Those that have waited longest come first. */
  readonly #unread = new Map<ServerResponse, Unread>();

  constructor(options: UnreadOutputOptions) {
    this.#options = options;
  }

  /** Must be called after each text that is written to a response, and when it is destroyed. */
  count(response: ServerResponse, account: MemoryAccount): void {
    const { writableLength: length, destroyed } = response;
    if (destroyed) return this.#forget(response);
    const known = this.#unread.get(response);
    if (known !== undefined) known.memory.resize(length * COPIES);
    else if (length > SMALL_LENGTH) this.#add(response, account, length);
  }

  /** Closes connections whose clients are slow, the slowest first, until this much memory is free. */
  cutOffSlow(bytes: number): void {
    const readBeforeMs = this.#options.nowMs() - SLOW_READER_MS;
    let freeBytes = 0;
    for (const [response, { memory, sinceMs }] of this.#unread) {
      if (freeBytes >= bytes || sinceMs > readBeforeMs) return;
      freeBytes += memory.bytes;
      const length = response.writableLength;
      this.#forget(response);
      response.destroy();
      this.#options.onCut(length);
    }
  }

  #add(response: ServerResponse, account: MemoryAccount, length: number): void {
    const forget = (): void => this.#forget(response);
    // A reservation may close slow connections, so it is made before this one is added.
    this.#unread.set(response, { memory: account.hold("unread", length * COPIES), sinceMs: this.#options.nowMs() });
    response.once("drain", forget);
    response.once("close", forget);
  }

  #forget(response: ServerResponse): void {
    this.#unread.get(response)?.memory.release();
    this.#unread.delete(response);
  }
}
