import { randomBytes } from "node:crypto";
import type { Context } from "../context.ts";
import { ANY_HOLDER, LinkedOrder, type MemoryAccount, type MemoryHolder, Place, type Reservation, textMemoryBytes } from "../memory.ts";
import { Timer } from "../timers.ts";

export interface LoggedEvent {
  readonly owner: KeptEvents;
  readonly holder: MemoryHolder;
  readonly sequence: number;
  readonly text: string;
  readonly loggedAtMs: number;
  readonly memory: Reservation;
  readonly place: Place<LoggedEvent>;
}

/** One stream has at most this share of the log, so that a flooded one does not evict the events of all others. */
const STREAM_SHARE = 1 / 4;

const BYTES_PER_EVENT = 512;

/** The events of all streams, in order of arrival. The oldest are dropped first, by memory and age. */
export class EventLog {
  /** Names this process in event ids, anew after each restart: 8 hexadecimal digits. */
  readonly replica = randomBytes(4).toString("hex");
  bytes = 0;
  readonly #context: Context;
  /** When the oldest event expires, or one before it did. */
  readonly #expiry: Timer;
  readonly #events = new LinkedOrder<LoggedEvent>();

  constructor(context: Context) {
    this.#context = context;
    this.#expiry = new Timer(context, (nowMs) => this.#expire(nowMs));
    context.memory.onShortage("replay", (holder) => this.#drop(holder));
  }

  append(account: MemoryAccount, owner: KeptEvents, sequence: number, text: string): LoggedEvent {
    const { replayMaxAgeMs, replayMaxBytes } = this.#context.config;
    const memoryBytes = BYTES_PER_EVENT + textMemoryBytes(text);
    const memory = account.hold("replay", memoryBytes);
    const place = new Place<LoggedEvent>();
    const event = { owner, holder: account.holder, sequence, text, loggedAtMs: this.#context.nowMs(), memory, place };
    place.value = event;
    this.#events.moveToEnd(place);
    this.bytes += memoryBytes;
    if (this.#events.first === place) this.#expiry.set(event.loggedAtMs + replayMaxAgeMs);
    while (this.bytes > replayMaxBytes) {
      const oldest = this.#events.first?.value;
      if (oldest === undefined || oldest === event) break;
      this.#forget(oldest);
    }
    return event;
  }

  isOverShare(eventCount: number, bytes: number): boolean {
    const { replayMaxEvents, replayMaxBytes } = this.#context.config;
    return eventCount > replayMaxEvents || bytes > replayMaxBytes * STREAM_SHARE;
  }

  /** Does not call `forget` of the owner. */
  remove(event: LoggedEvent): void {
    if (!event.place.isInOrder) return;
    event.place.leave();
    this.bytes -= event.memory.bytes;
    event.memory.release();
    if (this.#events.first === undefined) this.#expiry.clear();
  }

  *#drop(holder: MemoryHolder): Generator<void> {
    let place = this.#events.first;
    while (place?.value !== undefined) {
      const { value: event, later }: Place<LoggedEvent> = place;
      if (holder === ANY_HOLDER || event.holder === holder) yield this.#forget(event);
      place = later;
    }
  }

  #forget(event: LoggedEvent): void {
    event.owner.forget(event);
    this.remove(event);
  }

  #expire(nowMs: number): void {
    for (let oldest = this.#events.first?.value; oldest !== undefined; oldest = this.#events.first?.value) {
      const expiresAtMs = oldest.loggedAtMs + this.#context.config.replayMaxAgeMs;
      if (expiresAtMs > nowMs) return this.#expiry.set(expiresAtMs);
      this.#forget(oldest);
    }
  }
}

/** A longer text is not copied. In UTF-16 units. */
const MAX_COPIED_LENGTH = 16 * 1024;

/** The events of one stream, oldest first. */
export class KeptEvents {
  /** The number of the newest event, kept or not; 0 before the first. */
  lastSequence: number;
  readonly #account: MemoryAccount;
  readonly #log: EventLog | undefined;
  readonly #onEmpty: () => void;
  readonly #events = new Map<number, LoggedEvent>();
  #bytes = 0;

  constructor(account: MemoryAccount, log: EventLog | undefined, onEmpty: () => void = () => undefined, lastSequence = 0) {
    [this.#account, this.#log, this.#onEmpty, this.lastSequence] = [account, log, onEmpty, lastSequence];
  }

  get size(): number {
    return this.#events.size;
  }

  values(): MapIterator<LoggedEvent> {
    return this.#events.values();
  }

  /** Drops old events above the share, but never the newest: it may be the response. */
  add(text: string): Pick<LoggedEvent, "sequence" | "text"> {
    const sequence = ++this.lastSequence;
    if (this.#log === undefined) return { sequence, text };
    // A message of a batch is a slice, which would keep the whole batch in memory.
    const copy = text.length < MAX_COPIED_LENGTH ? Buffer.from(text).toString() : text;
    const event = this.#log.append(this.#account, this, sequence, copy);
    this.#events.set(event.sequence, event);
    this.#bytes += event.memory.bytes;
    for (const oldest of this.#events.values()) {
      if (oldest === event || !this.#log.isOverShare(this.#events.size, this.#bytes)) break;
      this.take(oldest);
    }
    return event;
  }

  take(event: LoggedEvent): void {
    this.forget(event);
    this.#log?.remove(event);
  }

  clear(): void {
    for (const event of this.#events.values()) this.#log?.remove(event);
    this.#events.clear();
    this.#bytes = 0;
  }

  /** Must be called before the log drops an event. */
  forget(event: LoggedEvent): void {
    if (!this.#events.delete(event.sequence)) return;
    this.#bytes -= event.memory.bytes;
    if (this.#events.size === 0) this.#onEmpty();
  }
}
