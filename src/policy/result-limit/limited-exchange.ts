import type { SidecarError } from "../../errors.ts";
import { findMembers } from "../../json/find.ts";
import type { Exchange } from "../../sessions/exchange.ts";
import { limitBody } from "./limit.ts";
import { limitFailure } from "./limit-failure.ts";
import { RewrittenExchange } from "../../sessions/rewritten-exchange.ts";

export interface ResultLimit {
  /** The limit for the whole HTTP body. */
  readonly maxBytes: number;
  /** The interval at which a comment is written on every open stream. */
  readonly keepAliveMs: number;
  /** The clock of `Exchange.acceptedAtMs`. */
  readonly nowMs: () => number;
  /** Called when a response was shortened. */
  readonly onTruncated: () => void;
}

/** The size of an event without its message: `id: …`, `event: message`, `data: ` and the line ends. The first event of a stream has no message. */
const EVENT_BYTES = 64;
const COMMENT_BYTES = ": keep-alive\n\n".length;

/** The part of the body that any messages may take before the response. */
const AHEAD_PART = 1 / 2;
/** The part of the body up to which server requests are still sent, because the response may depend on them. */
const SERVER_REQUESTS_PART = 3 / 4;

/** An exchange whose whole HTTP body stays within a limit. The response gets the room that earlier messages have left. */
export class LimitedExchange extends RewrittenExchange {
  readonly #limit: ResultLimit;
  #bytesAhead = 0;
  #isStream = false;

  constructor(inner: Exchange, limit: ResultLimit) {
    super(inner, (body) => this.#shorten(body));
    this.#limit = limit;
  }

  /** @returns false also for a message that would leave too little room for the response. */
  override emit(body: string): boolean {
    if (this.sharedBy === 0) return this.inner.emit(body);
    const bytesAhead = this.#bytesAhead + Buffer.byteLength(body) + EVENT_BYTES;
    const shareBytes = this.#limit.maxBytes / this.sharedBy;
    if (bytesAhead > shareBytes * AHEAD_PART && !(isServerRequest(body) && bytesAhead <= shareBytes * SERVER_REQUESTS_PART)) return false;
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
    const limited = limitFailure(error, this.idText, this.#roomBytes());
    if (typeof limited === "string") this.inner.respond(limited);
    else this.inner.fail(limited);
  }

  #shorten(body: string): string {
    const shortened = limitBody(body, this.#roomBytes(), this.idText);
    if (shortened !== undefined) this.#limit.onTruncated();
    return shortened ?? body;
  }

  #roomBytes(): number {
    const { keepAliveMs, nowMs } = this.#limit;
    const maxBytes = this.#limit.maxBytes - (this.inner.addedBytes ?? 0);
    const { sharedBy, acceptedAtMs } = this;
    // In an endless stream, each response has the whole limit for itself.
    if (sharedBy === 0) return maxBytes - EVENT_BYTES;
    if (sharedBy === 1 && !this.#isStream) return maxBytes;
    // Another response of a batch may have begun the stream. A response as an array takes less.
    const commentsBytes = COMMENT_BYTES * (1 + Math.floor((nowMs() - acceptedAtMs) / keepAliveMs));
    // The first event of a stream has no message, and belongs to all responses.
    return Math.floor((maxBytes - EVENT_BYTES) / sharedBy) - EVENT_BYTES - this.#bytesAhead - commentsBytes;
  }
}

function isServerRequest(body: string): boolean {
  return findMembers(body, 0, ["id"]).spans[0] !== undefined;
}
