import type { Defects } from "../observability/defects.ts";
import { DeadlineSweep } from "../timing/deadline-sweep.ts";

/** The limits of the events that are kept for clients that reconnect. */
export interface ReplayLimits {
  /** The limit for all streams together. */
  readonly replayMaxBytes: number;
  readonly replayMaxAgeMs: number;
  /** The limit for one stream. */
  readonly replayMaxEvents: number;
}

/** One message on a stream, kept for replay. */
export interface LoggedEvent {
  readonly owner: EventOwner;
  /** The number of the event in its stream, from 1. */
  readonly sequence: number;
  readonly text: string;
  readonly byteLength: number;
  readonly loggedAtMs: number;
}

/** The stream of an event. */
export interface EventOwner {
  /** Called when the log has dropped the event. */
  forget(event: LoggedEvent): void;
}

/** The maximum share of one stream in the log, so that a flooded stream does not evict the events of all others. */
const STREAM_SHARE = 1 / 4;

/** The approximate memory of an event besides its text. It bounds the number of short events. */
const BYTES_PER_EVENT = 512;

/** The events of all streams in order of arrival. They are limited in bytes, age and number: the oldest are dropped first. */
export class EventLog {
  readonly limits: ReplayLimits;
  readonly #nowMs: () => number;
  readonly #events = new Set<LoggedEvent>();
  readonly #sweep: DeadlineSweep;
  /** Kept between calls: a new iterator would pass the slots of all events removed at the front, which is slow in a full log. */
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

  /** True if a stream with this number of events and bytes exceeds its share. */
  isOverShare(eventCount: number, bytes: number): boolean {
    return eventCount > this.limits.replayMaxEvents || bytes > this.limits.replayMaxBytes * STREAM_SHARE;
  }

  /** Removes an event without a call of its owner's `forget`. */
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

  /** @returns the time at which the next event expires, or Infinity. */
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
        // No event is left. An iterator that has ended does not see later events.
        this.#fromOldest = this.#events.values();
        this.#oldest = undefined;
        return undefined;
      }
      this.#oldest = value;
    }
    return this.#oldest;
  }
}
