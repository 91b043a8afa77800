import type { ClientEventLog, LoggedEvent } from "./event-log.ts";
import { formatEventId, type StreamName } from "./event-id.ts";
import { KeptEvents } from "./kept-events.ts";

/** The port to a connection that carries server-sent events. */
export interface EventSink {
  /** @returns false if the reader is too far behind; the connection is then unusable. */
  send(eventId: string, text: string): boolean;
  /**
   * Ends the connection after the events that were sent.
   *
   * @param isOvertaken true if a newer connection resends the unread events, so they need not be flushed here.
   */
  end(isOvertaken?: boolean): void;
}

/** One stream of a session. Its messages go to one connection at a time, and the newest are kept for the next connection. */
export class EventStream {
  readonly name: StreamName;
  readonly #kept: KeptEvents;
  readonly #onGone: (stream: EventStream) => void;
  #sink: EventSink | undefined;
  #isFinished = false;

  /**
   * @param onGone called when no events are kept and the stream has ended, or is a GET stream without a connection.
   * @param lastSequence the number of its last event so far.
   */
  constructor(name: StreamName, log: ClientEventLog | undefined, onGone: (stream: EventStream) => void, lastSequence = 0) {
    this.name = name;
    this.#kept = new KeptEvents(log, () => this.#checkGone(), lastSequence);
    this.#onGone = onGone;
  }

  /** True if a GET opened the stream, for messages that are not related to a request; false for a POST. */
  get isStandalone(): boolean {
    return this.name.isStandalone;
  }

  get isAttached(): boolean {
    return this.#sink !== undefined;
  }

  get isFinished(): boolean {
    return this.#isFinished;
  }

  /** True if the stream has sent a message, so that its client may have an event id to reconnect with. */
  get hasBegun(): boolean {
    return this.#kept.lastSequence > 0;
  }

  /** The number of the last event. */
  get lastSequence(): number {
    return this.#kept.lastSequence;
  }

  /** True if an event with this number was sent, or the number is 0. */
  hasReached(sequence: number): boolean {
    return sequence <= this.#kept.lastSequence;
  }

  /** True if no event follows `sequence` and none can. */
  isDeliveredUpTo(sequence: number): boolean {
    return this.#isFinished && sequence >= this.#kept.lastSequence;
  }

  eventId(sequence: number): string {
    return formatEventId({ ...this.name, sequence });
  }

  /** Continues on this connection with the kept events after `sequence`, then with new ones. Ends a former connection. */
  attach(sink: EventSink, sequence = 0): void {
    const former = this.#sink;
    this.#sink = sink;
    former?.end(true);
    for (const event of this.#kept.values()) {
      if (event.sequence > sequence) this.#send(event);
    }
    if (this.#isFinished) this.#endSink();
  }

  /** Detaches a lost connection. Does nothing if another connection has replaced it. */
  detach(sink: EventSink): void {
    if (this.#sink !== sink) return;
    this.#sink = undefined;
    this.#checkGone();
  }

  emit(text: string): void {
    if (!this.#isFinished) this.#send(this.#kept.add(text));
  }

  /** Sends the last message and ends the stream. */
  finish(text: string): void {
    this.emit(text);
    this.end();
  }

  /** Ends the stream. Kept events stay for a client that reconnects. */
  end(): void {
    this.#isFinished = true;
    this.#endSink();
    this.#checkGone();
  }

  /** Ends the stream and drops its kept events. Called at the end of the session. */
  close(): void {
    this.#kept.clear();
    this.end();
  }

  #send(event: Pick<LoggedEvent, "sequence" | "text">): void {
    if (this.#sink?.send(this.eventId(event.sequence), event.text) === false) this.#sink = undefined;
  }

  #endSink(): void {
    const sink = this.#sink;
    this.#sink = undefined;
    sink?.end();
  }

  #checkGone(): void {
    const isOver = this.#isFinished || (this.isStandalone && this.#sink === undefined);
    if (isOver && this.#kept.size === 0) this.#onGone(this);
  }
}
