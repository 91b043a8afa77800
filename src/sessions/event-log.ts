import type { MemoryAccount, Reservation } from "../memory/memory-budget.ts";
import { textMemoryBytes } from "../memory/memory-size.ts";
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
  readonly memory: Reservation;
  /** Its place in the log; undefined when it is removed. Only the log changes it. */
  place: Place | undefined;
}

/** The log for the streams of one client. */
export interface ClientEventLog extends Pick<EventLog, "remove" | "isOverShare"> {
  append(owner: EventOwner, sequence: number, text: string): LoggedEvent;
}

interface Place {
  older: LoggedEvent | undefined;
  newer: LoggedEvent | undefined;
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

/**
 * The events of all streams in order of arrival. They are limited in bytes, age and number: the oldest are dropped first.
 *
 * The order is a linked list, because events are removed anywhere. In a Set, each search for the oldest would pass all places of removed
 * events, and a kept iterator would hold these events in memory.
 */
export class EventLog {
  readonly limits: ReplayLimits;
  readonly #nowMs: () => number;
  readonly #sweep: DeadlineSweep;
  readonly #maxEvents: number;
  #oldest: LoggedEvent | undefined;
  #newest: LoggedEvent | undefined;
  #size = 0;
  #bytes = 0;

  constructor(limits: ReplayLimits, nowMs: () => number, defects: Pick<Defects, "guard">) {
    this.limits = limits;
    this.#maxEvents = Math.max(limits.replayMaxEvents, limits.replayMaxBytes / BYTES_PER_EVENT);
    this.#nowMs = nowMs;
    this.#sweep = new DeadlineSweep(nowMs, defects, (atMs) => this.#expire(atMs));
  }

  get size(): number {
    return this.#size;
  }

  /** Returns the log for one client, to whose memory its events count. */
  forClient(account: MemoryAccount): ClientEventLog {
    return {
      append: (owner, sequence, text) => this.#append(account, owner, sequence, text),
      remove: (event) => this.remove(event),
      isOverShare: (eventCount, bytes) => this.isOverShare(eventCount, bytes),
    };
  }

  #append(account: MemoryAccount, owner: EventOwner, sequence: number, text: string): LoggedEvent {
    const byteLength = Buffer.byteLength(text);
    // This may drop older events, so it comes before the search for the newest one.
    const memory = account.hold("replay", BYTES_PER_EVENT + textMemoryBytes(text, byteLength));
    const place: Place = { older: this.#newest, newer: undefined };
    const event: LoggedEvent = { owner, sequence, text, byteLength, loggedAtMs: this.#nowMs(), memory, place };
    if (place.older?.place !== undefined) place.older.place.newer = event;
    this.#oldest ??= event;
    this.#newest = event;
    this.#size++;
    this.#bytes += event.byteLength;
    this.#sweep.watch(event.loggedAtMs + this.limits.replayMaxAgeMs);
    while (this.#bytes > this.limits.replayMaxBytes || this.#size > this.#maxEvents) {
      if (this.#oldest === undefined || this.#oldest === event) break;
      this.#forget(this.#oldest);
    }
    return event;
  }

  /** True if a stream with this number of events and bytes exceeds its share. */
  isOverShare(eventCount: number, bytes: number): boolean {
    return eventCount > this.limits.replayMaxEvents || bytes > this.limits.replayMaxBytes * STREAM_SHARE;
  }

  /** Removes an event without a call of its owner's `forget`. */
  remove(event: LoggedEvent): void {
    const { place } = event;
    if (place === undefined) return;
    const { older, newer } = place;
    if (older?.place === undefined) this.#oldest = newer;
    else older.place.newer = newer;
    if (newer?.place === undefined) this.#newest = older;
    else newer.place.older = older;
    event.place = undefined;
    event.memory.release();
    this.#size--;
    this.#bytes -= event.byteLength;
  }

  /** Drops the oldest events until this much memory is free, or the log is empty. */
  free(bytes: number): void {
    for (let oldest = this.#oldest, freeBytes = 0; oldest !== undefined && freeBytes < bytes; oldest = this.#oldest) {
      freeBytes += oldest.memory.bytes;
      this.#forget(oldest);
    }
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
    for (let oldest = this.#oldest; oldest !== undefined; oldest = this.#oldest) {
      const expiresAtMs = oldest.loggedAtMs + this.limits.replayMaxAgeMs;
      if (expiresAtMs > nowMs) return expiresAtMs;
      this.#forget(oldest);
    }
    return Number.POSITIVE_INFINITY;
  }
}
