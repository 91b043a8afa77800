import type { EventLog, EventOwner, LoggedEvent } from "./event-log.ts";

/** Of what is read from a pipe at once. */
const CHUNK_LENGTH = 65_536;

/** What one stream keeps in the log: its own share of it, oldest first. */
export class KeptEvents implements EventOwner {
  readonly #log: EventLog | undefined;
  readonly #onEmpty: () => void;
  readonly #events = new Map<number, LoggedEvent>();
  #bytes = 0;
  #lastSequence: number;

  /**
   * @param log undefined where nothing is kept.
   * @param onEmpty called when the last event was forgotten.
   * @param lastSequence of the newest event there was before, if any.
   */
  constructor(log: EventLog | undefined, onEmpty: () => void = () => undefined, lastSequence = 0) {
    this.#log = log;
    this.#onEmpty = onEmpty;
    this.#lastSequence = lastSequence;
  }

  get size(): number {
    return this.#events.size;
  }

  /** Of the newest event there ever was; 0 before the first. */
  get lastSequence(): number {
    return this.#lastSequence;
  }

  /** Events may be taken while they are iterated. */
  values(): MapIterator<LoggedEvent> {
    return this.#events.values();
  }

  /** The newest is kept whatever its size: it may be the answer. */
  add(text: string): Pick<LoggedEvent, "sequence" | "text"> {
    const sequence = ++this.#lastSequence;
    if (this.#log === undefined) return { sequence, text };
    const event = this.#log.append(this, sequence, detach(text));
    this.#events.set(event.sequence, event);
    this.#bytes += event.byteLength;
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
    this.#bytes -= event.byteLength;
    if (this.#events.size === 0) this.#onEmpty();
  }
}

/** A line is a part of the chunk that it came in, and would keep all of that in memory; a copy of it does not. */
function detach(text: string): string {
  return text.length < CHUNK_LENGTH / 4 ? Buffer.from(text).toString() : text;
}
