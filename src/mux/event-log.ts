import type { Defects } from "../defects.ts";
import { DeadlineSweep } from "./deadline-sweep.ts";

/** The bounds of what is kept for clients that come back for it. */
export interface ReplayLimits {
  /** Of all streams together. */
  readonly replayMaxBytes: number;
  readonly replayMaxAgeMs: number;
  /** Of one stream. */
  readonly replayMaxEvents: number;
}

/** One message on a stream, kept for replay. */
export interface LoggedEvent {
  readonly owner: EventOwner;
  /** Counts from 1 in its owner. */
  readonly sequence: number;
  readonly text: string;
  readonly byteLength: number;
  readonly loggedAtMs: number;
}

/** A stream, as the log sees it. */
export interface EventOwner {
  /** The log keeps this event no longer. */
  forget(event: LoggedEvent): void;
}

/** No stream may take more than this part of the log, so that one that is flooded does not cost the others theirs. */
const STREAM_SHARE = 1 / 4;

/** What an event costs besides its text, roughly: short ones are bounded by their number. */
const BYTES_PER_EVENT = 512;

/** The events of all streams in the order in which they came, bounded in bytes, age and number: the oldest are forgotten first. */
export class EventLog {
  readonly limits: ReplayLimits;
  readonly #nowMs: () => number;
  readonly #events = new Set<LoggedEvent>();
  readonly #sweep: DeadlineSweep;
  /** One that starts anew passes the places of all events that were removed at the front: too many, in a log that is full. */
  #fromOldest = this.#events.values();
  #oldest: LoggedEvent | undefined;
  readonly #maxEvents: number;
  #bytes = 0;

  constructor(limits: ReplayLimits, nowMs: () => number, defects: Pick<Defects, "guard">) {
    this.limits = limits;
    this.#maxEvents = Math.max(limits.replayMaxEvents, limits.replayMaxBytes / BYTES_PER_EVENT);
    this.#nowMs = nowMs;
    this.#sweep = new DeadlineSweep(nowMs, defects, (atMs) => this.#expire(atMs));
  }

  get size(): number {
    return this.#events.size;
  }

  append(owner: EventOwner, sequence: number, text: string): LoggedEvent {
    const event = { owner, sequence, text, byteLength: Buffer.byteLength(text), loggedAtMs: this.#nowMs() };
    this.#events.add(event);
    this.#bytes += event.byteLength;
    this.#sweep.watch(event.loggedAtMs + this.limits.replayMaxAgeMs);
    while (this.#bytes > this.limits.replayMaxBytes || this.#events.size > this.#maxEvents) {
      const oldest = this.#findOldest();
      if (oldest === undefined || oldest === event) break;
      this.#forget(oldest);
    }
    return event;
  }

  /** Whether a stream with so many events, and so much text, has more than its share. */
  isOverShare(eventCount: number, bytes: number): boolean {
    return eventCount > this.limits.replayMaxEvents || bytes > this.limits.replayMaxBytes * STREAM_SHARE;
  }

  /** For an owner that forgets by itself. */
  remove(event: LoggedEvent): void {
    if (this.#events.delete(event)) this.#bytes -= event.byteLength;
  }

  close(): void {
    this.#sweep.close();
  }

  #forget(event: LoggedEvent): void {
    this.remove(event);
    event.owner.forget(event);
  }

  /** @returns when the next event is too old, or Infinity. */
  #expire(nowMs: number): number {
    for (let oldest = this.#findOldest(); oldest !== undefined; oldest = this.#findOldest()) {
      const expiresAtMs = oldest.loggedAtMs + this.limits.replayMaxAgeMs;
      if (expiresAtMs > nowMs) return expiresAtMs;
      this.#forget(oldest);
    }
    return Number.POSITIVE_INFINITY;
  }

  #findOldest(): LoggedEvent | undefined {
    while (this.#oldest === undefined || !this.#events.has(this.#oldest)) {
      const { done, value } = this.#fromOldest.next();
      if (done === true) {
        // It has passed all events, and none of them is left; an iterator that has ended does not go on.
        this.#fromOldest = this.#events.values();
        this.#oldest = undefined;
        return undefined;
      }
      this.#oldest = value;
    }
    return this.#oldest;
  }
}
