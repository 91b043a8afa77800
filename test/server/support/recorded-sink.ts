import type { EventSink } from "../../../src/session/streams.ts";

/** A connection that records the messages sent on it. With a limit, its reader is too slow for more. */
export class RecordedSink implements EventSink {
  readonly events: { readonly id: string; readonly text: string }[] = [];
  endCount = 0;
  isOvertaken = false;
  readonly #maxEvents: number;

  constructor(maxEvents = Number.POSITIVE_INFINITY) {
    this.#maxEvents = maxEvents;
  }

  get texts(): string[] {
    return this.events.map(({ text }) => text);
  }

  get ids(): string[] {
    return this.events.map(({ id }) => id);
  }

  get isEnded(): boolean {
    return this.endCount > 0;
  }

  send(id: string, text: string): boolean {
    if (this.isEnded) throw new Error(`${text} is sent on a connection that was ended`);
    if (this.events.length >= this.#maxEvents) return false;
    this.events.push({ id, text });
    return true;
  }

  end(isOvertaken = false): void {
    this.isOvertaken = isOvertaken;
    this.endCount++;
  }
}
