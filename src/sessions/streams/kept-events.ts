import type { ClientEventLog, EventOwner, LoggedEvent } from "./event-log.ts";

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
