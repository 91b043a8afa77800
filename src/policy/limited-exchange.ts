import type { SidecarError } from "../errors.ts";
import { findMembers } from "../json/find.ts";
import type { Exchange } from "../mux/exchange.ts";
import { limitBody } from "./result-limit/limit.ts";
import { RewrittenExchange } from "./rewritten-exchange.ts";
import { limitFailure } from "./result-limit/failure.ts";

export interface ResultLimit {
  /** Of the whole HTTP body. */
  readonly maxBytes: number;
  /** How often a comment is written on every open stream. */
  readonly keepAliveMs: number;
  /** The clock of `Exchange.acceptedAtMs`. */
  readonly nowMs: () => number;
  /** Called when an answer was shortened. */
  readonly onTruncated: () => void;
}

/** An event without its message: `id: …`, `event: message`, `data: ` and the line ends. Also the one that a stream begins with. */
const EVENT_BYTES = 64;
const COMMENT_BYTES = ": keep-alive\n\n".length;

/** How much of the body may be sent ahead of the response: by anything, and by what the server asks, without which there may be none. */
const AHEAD_PART = 1 / 2;
const QUESTIONS_PART = 3 / 4;

/** An exchange whose whole HTTP body stays within a limit: the response gets what is left by all that was sent ahead of it. */
export class LimitedExchange extends RewrittenExchange {
  readonly #limit: ResultLimit;
  #bytesAhead = 0;
  #isStream = false;

  constructor(inner: Exchange, limit: ResultLimit) {
    super(inner, (body) => this.#shorten(body));
    this.#limit = limit;
  }

  /** @returns false, too, for what would leave too little for the response. */
  override emit(body: string): boolean {
    if (this.sharedBy === 0) return this.inner.emit(body);
    const bytesAhead = this.#bytesAhead + Buffer.byteLength(body) + EVENT_BYTES;
    const shareBytes = this.#limit.maxBytes / this.sharedBy;
    if (bytesAhead > shareBytes * AHEAD_PART && !(isQuestion(body) && bytesAhead <= shareBytes * QUESTIONS_PART)) return false;
    if (!this.inner.emit(body)) return false;
    this.#isStream = true;
    this.#bytesAhead = bytesAhead;
    return true;
  }

  override keepAlive(): void {
    this.#isStream = true;
    this.inner.keepAlive();
  }

  override fail(error: SidecarError): void {
    this.inner.fail(limitFailure(error, this.idText, this.#roomBytes()));
  }

  #shorten(body: string): string {
    const shortened = limitBody(body, this.#roomBytes(), this.idText);
    if (shortened !== undefined) this.#limit.onTruncated();
    return shortened ?? body;
  }

  #roomBytes(): number {
    const { maxBytes, keepAliveMs, nowMs } = this.#limit;
    const { sharedBy, acceptedAtMs } = this;
    // Each response is a message of its own there, in a body that nobody reads to its end.
    if (sharedBy === 0) return maxBytes - EVENT_BYTES;
    if (sharedBy === 1 && !this.#isStream) return maxBytes;
    // In a batch another one may have begun the stream. As an array it takes less.
    const commentsBytes = COMMENT_BYTES * (1 + Math.floor((nowMs() - acceptedAtMs) / keepAliveMs));
    return Math.floor(maxBytes / sharedBy) - this.#bytesAhead - commentsBytes - 2 * EVENT_BYTES;
  }
}

function isQuestion(body: string): boolean {
  return findMembers(body, 0, ["id"]).spans[0] !== undefined;
}
