import type { EventLog, LoggedEvent } from "./event-log.ts";
import { KeptEvents } from "./kept-events.ts";

/** The port to a connection that carries events. */
export interface EventSink {
  /** @returns false when the reader is too far behind: the connection is then given up. */
  send(eventId: string, text: string): boolean;
  /**
   * Ends the connection, after what was sent.
   *
   * @param isOvertaken what its reader has not read yet goes to another connection: it need not be sent.
   */
  end(isOvertaken?: boolean): void;
}

export interface EventPosition {
  readonly isStandalone: boolean;
  readonly streamId: number;
  readonly sequence: number;
}

/**
 * `r3-17`: the 17th event of the stream of a request, `s3-17` of one that was opened by GET. Unique in the session, and names the stream
 * to go on with (MCP 2025-11-25, basic/transports, resumability).
 */
export function formatEventId({ isStandalone, streamId, sequence }: EventPosition): string {
  return `${isStandalone ? "s" : "r"}${streamId}-${sequence}`;
}

/** @returns undefined for what was never an event id of ours. */
export function parseEventId(text: string): EventPosition | undefined {
  const match = /^([rs])(\d{1,15})-(\d{1,15})$/.exec(text);
  return match === null ? undefined : { isStandalone: match[1] === "s", streamId: Number(match[2]), sequence: Number(match[3]) };
}

/** One stream of a session: its messages go to one connection at a time, and the last ones are kept for the next connection. */
export class EventStream {
  readonly id: number;
  /** Opened by GET, for messages that belong to no request; not by a POST. */
  readonly isStandalone: boolean;
  readonly #kept: KeptEvents;
  readonly #onGone: (stream: EventStream) => void;
  #sink: EventSink | undefined;
  #isFinished = false;

  /**
   * @param onGone called when nothing more can be done with it: finished, or a GET stream without a connection, and nothing kept.
   * @param lastSequence from which it goes on.
   */
  constructor(id: number, isStandalone: boolean, log: EventLog | undefined, onGone: (stream: EventStream) => void, lastSequence = 0) {
    this.id = id;
    this.isStandalone = isStandalone;
    this.#kept = new KeptEvents(log, () => this.#checkGone(), lastSequence);
    this.#onGone = onGone;
  }

  get isAttached(): boolean {
    return this.#sink !== undefined;
  }

  get isFinished(): boolean {
    return this.#isFinished;
  }

  /** Whether any message was sent on it: then its client has an event id to come back with. */
  get hasBegun(): boolean {
    return this.#kept.lastSequence > 0;
  }

  /** Of the last message there was. */
  get lastSequence(): number {
    return this.#kept.lastSequence;
  }

  /** Whether an event of that number was sent, or is the place before the first. */
  hasReached(sequence: number): boolean {
    return sequence <= this.#kept.lastSequence;
  }

  /** Whether a client that was sent all up to `sequence` has nothing more to come. */
  isDeliveredUpTo(sequence: number): boolean {
    return this.#isFinished && sequence >= this.#kept.lastSequence;
  }

  eventId(sequence: number): string {
    return formatEventId({ isStandalone: this.isStandalone, streamId: this.id, sequence });
  }

  /** Goes on with this connection: what came after `sequence` and is still kept, then what comes. A former connection is ended. */
  attach(sink: EventSink, sequence = 0): void {
    const former = this.#sink;
    this.#sink = sink;
    former?.end(true);
    for (const event of this.#kept.values()) {
      if (event.sequence > sequence) this.#send(event);
    }
    if (this.#isFinished) this.#endSink();
  }

  /** The connection is gone; nothing happens where another has taken its place. */
  detach(sink: EventSink): void {
    if (this.#sink !== sink) return;
    this.#sink = undefined;
    this.#checkGone();
  }

  emit(text: string): void {
    if (!this.#isFinished) this.#send(this.#kept.add(text));
  }

  /** The last message, and the end of the stream. */
  finish(text: string): void {
    this.emit(text);
    this.end();
  }

  /** No more messages. What is kept stays for a client that missed it. */
  end(): void {
    this.#isFinished = true;
    this.#endSink();
    this.#checkGone();
  }

  /** The session is over: nothing is kept. */
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
