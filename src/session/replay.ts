import { randomBytes } from "node:crypto";
import { LinkedOrder, type MemoryAccount, type MemoryHolder, Place, type Relief, type Reservation, textMemoryBytes } from "../memory.ts";
import type { Defects } from "../observe/log.ts";
import { DeadlineSweep } from "../timers.ts";

/** Returns a name for this process: 8 hexadecimal digits. A replica has another one after each restart. */
function newReplicaName(): string {
  return randomBytes(4).toString("hex");
}

/** The limits of the events that are kept for clients that reconnect. */
export interface ReplayLimits {
  /** The limit for all streams together, in memory. */
  readonly replayMaxBytes: number;
  readonly replayMaxAgeMs: number;
  /** The limit for one stream. */
  readonly replayMaxEvents: number;
}

/** One message on a stream, kept for replay. */
export interface LoggedEvent {
  readonly owner: EventOwner;
  readonly holder: MemoryHolder;
  /** The number of the event in its stream, from 1. */
  readonly sequence: number;
  readonly text: string;
  readonly loggedAtMs: number;
  readonly memory: Reservation;
  /** Its size in memory, also after the release. */
  readonly memoryBytes: number;
  /** Its place in the log, which it leaves when it is removed. Only the log changes it. */
  readonly place: Place<LoggedEvent>;
}

/** The log for the streams of one client. */
export interface ClientEventLog extends Pick<EventLog, "remove" | "isOverShare" | "replica"> {
  append(owner: EventOwner, sequence: number, text: string): LoggedEvent;
}

/** The stream of an event. */
interface EventOwner {
  /** Called when the log has dropped the event. */
  forget(event: LoggedEvent): void;
}

/** The maximum share of one stream in the log, so that a flooded stream does not evict the events of all others. */
const STREAM_SHARE = 1 / 4;

/** The approximate memory of an event besides its text. */
const BYTES_PER_EVENT = 512;

/** The events of all streams in order of arrival. They are limited in memory and age: the oldest are dropped first. */
export class EventLog implements Relief {
  readonly limits: ReplayLimits;
  /** Names this process in event ids: 8 hexadecimal digits. */
  readonly replica: string;
  readonly #nowMs: () => number;
  readonly #sweep: DeadlineSweep;
  readonly #events = new LinkedOrder<LoggedEvent>();
  #size = 0;
  #bytes = 0;

  constructor(limits: ReplayLimits, nowMs: () => number, defects: Pick<Defects, "guard">, replica = newReplicaName()) {
    this.limits = limits;
    this.replica = replica;
    this.#nowMs = nowMs;
    this.#sweep = new DeadlineSweep(nowMs, defects, (atMs) => this.#expire(atMs));
  }

  get size(): number {
    return this.#size;
  }

  /** Returns the log for one client, to whose memory its events count. */
  forClient(account: MemoryAccount): ClientEventLog {
    return {
      replica: this.replica,
      append: (owner, sequence, text) => this.#append(account, owner, sequence, text),
      remove: (event) => this.remove(event),
      isOverShare: (eventCount, bytes) => this.isOverShare(eventCount, bytes),
    };
  }

  #append(account: MemoryAccount, owner: EventOwner, sequence: number, text: string): LoggedEvent {
    const memoryBytes = BYTES_PER_EVENT + textMemoryBytes(text);
    const memory = account.hold("replay", memoryBytes);
    const place = new Place<LoggedEvent>();
    const event = { owner, holder: account.holder, sequence, text, loggedAtMs: this.#nowMs(), memory, memoryBytes, place };
    place.value = event;
    this.#events.moveToEnd(place);
    this.#size++;
    this.#bytes += memoryBytes;
    this.#sweep.watch(event.loggedAtMs + this.limits.replayMaxAgeMs);
    while (this.#bytes > this.limits.replayMaxBytes) {
      const oldest = this.#oldest;
      if (oldest === undefined || oldest === event) break;
      this.#forget(oldest);
    }
    return event;
  }

  /** True if a stream with this number of events and this memory exceeds its share. */
  isOverShare(eventCount: number, bytes: number): boolean {
    return eventCount > this.limits.replayMaxEvents || bytes > this.limits.replayMaxBytes * STREAM_SHARE;
  }

  /** Removes an event without a call of its owner's `forget`. */
  remove(event: LoggedEvent): void {
    if (!event.place.isInOrder) return;
    event.place.leave();
    this.#size--;
    this.#bytes -= event.memoryBytes;
    event.memory.release();
  }

  drop(isEnough: () => boolean, holder?: MemoryHolder): void {
    let place = this.#events.first;
    while (place?.value !== undefined) {
      const { value: event, later }: Place<LoggedEvent> = place;
      if (holder === undefined || event.holder === holder) {
        if (isEnough()) return;
        this.#forget(event);
      }
      place = later;
    }
  }

  close(): void {
    this.#sweep.close();
  }

  get #oldest(): LoggedEvent | undefined {
    return this.#events.first?.value;
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

/** A longer text is not copied. In UTF-16 units. */
const MAX_COPIED_LENGTH = 16 * 1024;

/** The events of one stream in the log, oldest first. */
export class KeptEvents implements EventOwner {
  readonly #log: ClientEventLog | undefined;
  readonly #onEmpty: () => void;
  readonly #events = new Map<number, LoggedEvent>();
  #bytes = 0;
  #lastSequence: number;

  /**
   * @param log undefined if no events are kept.
   * @param onEmpty called when the last kept event was dropped.
   * @param lastSequence the number of the newest event so far; 0 if there is none.
   */
  constructor(log: ClientEventLog | undefined, onEmpty: () => void = () => undefined, lastSequence = 0) {
    this.#log = log;
    this.#onEmpty = onEmpty;
    this.#lastSequence = lastSequence;
  }

  get size(): number {
    return this.#events.size;
  }

  /** The number of the newest event, kept or not; 0 before the first. */
  get lastSequence(): number {
    return this.#lastSequence;
  }

  /** Events may be taken while they are iterated. */
  values(): MapIterator<LoggedEvent> {
    return this.#events.values();
  }

  /** Adds an event, and drops old ones above the share. The newest is kept regardless of its size: it may be the response. */
  add(text: string): Pick<LoggedEvent, "sequence" | "text"> {
    const sequence = ++this.#lastSequence;
    if (this.#log === undefined) return { sequence, text };
    const event = this.#log.append(this, sequence, detach(text));
    this.#events.set(event.sequence, event);
    this.#bytes += event.memoryBytes;
    for (const oldest of this.#events.values()) {
      if (oldest === event || !this.#log.isOverShare(this.#events.size, this.#bytes)) break;
      this.take(oldest);
    }
    return event;
  }

  take(event: LoggedEvent): void {
    this.#log?.remove(event);
    this.forget(event);
  }

  clear(): void {
    for (const event of this.#events.values()) this.#log?.remove(event);
    this.#events.clear();
    this.#bytes = 0;
  }

  forget(event: LoggedEvent): void {
    if (!this.#events.delete(event.sequence)) return;
    this.#bytes -= event.memoryBytes;
    if (this.#events.size === 0) this.#onEmpty();
  }
}

/** Copies a short text. A message of a batch is a slice of its text, and would keep the whole batch in memory. */
function detach(text: string): string {
  return text.length < MAX_COPIED_LENGTH ? Buffer.from(text).toString() : text;
}
