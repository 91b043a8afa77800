import type { EventLog } from "./event-log.ts";
import { type EventPosition, EventStream } from "./event-stream.ts";
import { KeptEvents } from "./kept-events.ts";

/** Connections by GET that a session may hold; beyond it the oldest ends, since a half-open one never would. */
const MAX_STANDALONE_STREAMS = 16;
const MAX_REMEMBERED_ENDS = 1000;

/** The streams of one session, and the messages that wait for one. A message goes to exactly one of them. */
export class SessionStreams {
  readonly #log: EventLog | undefined;
  readonly #ofRequests = new Map<number, EventStream>();
  /** The one that was connected last is the last. Apart from the others, which are many while they are kept: each message looks here. */
  readonly #standalone = new Map<number, EventStream>();
  /** Messages that belong to no request and came while no GET stream was open. */
  readonly #waiting: KeptEvents;
  /**
   * The last event number of each stream that is gone. A GET stream resumes from it. For a request it tells a fully delivered stream from a
   * forgotten one.
   */
  readonly #endedAt = new Map<number, number>();
  #lastStreamId = 0;
  #isClosed = false;

  /** @param log undefined for a client that cannot come back: nothing is kept for it. */
  constructor(log: EventLog | undefined) {
    this.#log = log;
    this.#waiting = new KeptEvents(log);
  }

  /** Whether a client is connected, to wait for messages. */
  get isAttached(): boolean {
    return this.hasStandalone || this.#ofRequests.values().some((stream) => stream.isAttached);
  }

  get hasStandalone(): boolean {
    return this.#newestStandalone() !== undefined;
  }

  /** A stream for what comes ahead of the answer to a POST, and the answer. */
  openForRequest(): EventStream {
    return this.#open(false);
  }

  /** A stream for messages that belong to no request; `deliverWaiting` is to be called once it is attached. */
  openStandalone(): EventStream {
    this.#makeRoom();
    return this.#open(true);
  }

  /** @returns the stream to go on with, "delivered" where nothing more can come on it, or "unknown" where it never was. */
  find({ streamId, sequence, isStandalone }: EventPosition): EventStream | "delivered" | "unknown" {
    if (streamId < 1 || streamId > this.#lastStreamId) return "unknown";
    const stream = this.#standalone.get(streamId) ?? this.#ofRequests.get(streamId);
    // A GET stream of which nothing is kept goes on: the id that its client has is still the one to come back with.
    if (stream === undefined && isStandalone) {
      this.#makeRoom();
      return this.#open(true, streamId, Math.max(sequence, this.#endedAt.get(streamId) ?? 0));
    }
    if (stream === undefined) return sequence >= (this.#endedAt.get(streamId) ?? Number.POSITIVE_INFINITY) ? "delivered" : "unknown";
    if (stream.isStandalone !== isStandalone || !stream.hasReached(sequence)) return "unknown";
    if (stream.isDeliveredUpTo(sequence)) return "delivered";
    if (isStandalone && !stream.isFinished) {
      if (!stream.isAttached) this.#makeRoom();
      this.#standalone.delete(streamId);
      this.#standalone.set(streamId, stream);
    }
    return stream;
  }

  /** Sends a message that belongs to no request, to the newest GET stream: an older one may be half-open. Without one, it waits. */
  emit(text: string): void {
    // A private server may still be talking while it is being ended.
    if (this.#isClosed) return;
    const stream = this.#newestStandalone();
    if (stream === undefined) this.#waiting.add(text);
    else stream.emit(text);
  }

  /** As `emit`, for what says the same however often it is said: it waits once. */
  emitOnce(text: string): void {
    if (this.#waiting.values().some((event) => event.text === text)) return;
    this.emit(text);
  }

  /** Sends what has waited to the GET stream that has just been opened. */
  deliverWaiting(): void {
    const stream = this.#newestStandalone();
    if (stream === undefined) return;
    for (const event of this.#waiting.values()) {
      this.#waiting.take(event);
      stream.emit(event.text);
    }
  }

  /** Ends the GET connections; what is kept can still be replayed. */
  endStandalone(): void {
    for (const stream of this.#standalone.values()) stream.end();
  }

  /** The session is over. */
  close(): void {
    this.#isClosed = true;
    for (const streams of [this.#ofRequests, this.#standalone]) for (const stream of streams.values()) stream.close();
    this.#waiting.clear();
  }

  #open(isStandalone: boolean, streamId = ++this.#lastStreamId, from = 0): EventStream {
    const streams = isStandalone ? this.#standalone : this.#ofRequests;
    const onGone = ({ id, lastSequence }: EventStream): void => {
      streams.delete(id);
      this.#rememberEnd(id, lastSequence);
    };
    const stream = new EventStream(streamId, isStandalone, this.#log, onGone, from);
    streams.set(streamId, stream);
    return stream;
  }

  #rememberEnd(id: number, lastSequence: number): void {
    if (this.#isClosed) return;
    this.#endedAt.set(id, lastSequence);
    const [oldest] = this.#endedAt.keys();
    if (this.#endedAt.size > MAX_REMEMBERED_ENDS && oldest !== undefined) this.#endedAt.delete(oldest);
  }

  #makeRoom(): void {
    const [oldest, ...others] = this.#standalone.values().filter((stream) => stream.isAttached);
    if (others.length + 1 >= MAX_STANDALONE_STREAMS) oldest?.end();
  }

  #newestStandalone(): EventStream | undefined {
    let newest: EventStream | undefined;
    for (const stream of this.#standalone.values()) if (stream.isAttached) newest = stream;
    return newest;
  }
}
