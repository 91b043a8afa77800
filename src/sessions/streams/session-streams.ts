import { randomInt } from "node:crypto";
import type { ClientEventLog } from "./event-log.ts";
import type { EventPosition, StreamName } from "./event-id.ts";
import { EventStream } from "./event-stream.ts";
import { KeptEvents } from "./kept-events.ts";

/** The maximum number of GET connections of a session. Above it the oldest ends, since a half-open one never would. */
const MAX_STANDALONE_STREAMS = 16;
const MAX_REMEMBERED_ENDS = 1000;
/** The random first ids of the streams of a session that was taken up. The last one has 15 digits, as many as event ids have. */
const MIN_TAKEN_UP_ID = 2 ** 31;
const MAX_TAKEN_UP_ID = 2 ** 47;

/** The streams of one session, and the messages that wait for a stream. A message goes to exactly one stream. */
export class SessionStreams {
  readonly #log: ClientEventLog | undefined;
  readonly #ofRequests = new Map<number, EventStream>();
  /** The GET streams; the last one was connected last. Separate from the request streams, since every message searches them. */
  readonly #standalone = new Map<number, EventStream>();
  /** Messages that are not related to a request and came while no GET stream was open. */
  readonly #waiting: KeptEvents;
  /**
   * The last event number of each removed stream. A GET stream resumes from it. For a request it distinguishes a fully delivered stream
   * from a dropped one.
   */
  readonly #endedAt = new Map<number, number>();
  readonly #isTakenUp: boolean;
  readonly #firstStreamId: number;
  #lastStreamId: number;
  #isClosed = false;

  /**
   * @param log undefined for a client that cannot reconnect, so that no events are kept.
   * @param isTakenUp true if the same session may have had other streams in this process. Those have other ids.
   */
  constructor(log: ClientEventLog | undefined, isTakenUp = false) {
    this.#log = log;
    this.#isTakenUp = isTakenUp;
    this.#firstStreamId = isTakenUp ? randomInt(MIN_TAKEN_UP_ID, MAX_TAKEN_UP_ID) : 1;
    this.#lastStreamId = this.#firstStreamId - 1;
    this.#waiting = new KeptEvents(log);
  }

  /** True if the client has a connection that waits for messages. */
  get isAttached(): boolean {
    return this.hasStandalone || this.#ofRequests.values().some((stream) => stream.isAttached);
  }

  get hasStandalone(): boolean {
    return this.#newestStandalone() !== undefined;
  }

  /** Opens a stream for the response to a POST and the messages before it. @param requestIdText undefined for a batch. */
  openForRequest(requestIdText?: string): EventStream {
    return this.#open({ ...this.#nextName(false), requestIdText });
  }

  /** Opens a stream for messages that are not related to a request. Call `deliverWaiting` when it is attached. */
  openStandalone(): EventStream {
    this.#makeRoom();
    return this.#open(this.#nextName(true));
  }

  /**
   * @returns the stream to resume, "delivered" if no event can follow, "unknown" if the position is not known, or "elsewhere" if the
   * stream was not one of this object.
   */
  find({ sequence, ...name }: EventPosition): EventStream | "delivered" | "unknown" | "elsewhere" {
    const { streamId, isStandalone, replica } = name;
    if (replica !== this.#replica) return "elsewhere";
    if (streamId < this.#firstStreamId || streamId > this.#lastStreamId) return this.#isTakenUp ? "elsewhere" : "unknown";
    const stream = this.#standalone.get(streamId) ?? this.#ofRequests.get(streamId);
    // A GET stream without kept events is reopened under its old id, so that the client's event id stays valid.
    if (stream === undefined && isStandalone) {
      this.#makeRoom();
      return this.#open(name, Math.max(sequence, this.#endedAt.get(streamId) ?? 0));
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

  /** Sends a message on the newest GET stream, since an older one may be half-open. Keeps the message if there is no GET stream. */
  emit(text: string): void {
    // A private server may still send messages while it stops.
    if (this.#isClosed) return;
    const stream = this.#newestStandalone();
    if (stream === undefined) this.#waiting.add(text);
    else stream.emit(text);
  }

  /** Sends an idempotent message like `emit`, unless the same text is waiting already. */
  emitOnce(text: string): void {
    if (this.#waiting.values().some((event) => event.text === text)) return;
    this.emit(text);
  }

  /** Sends all waiting messages on the newest GET stream. */
  deliverWaiting(): void {
    const stream = this.#newestStandalone();
    if (stream === undefined) return;
    for (const event of this.#waiting.values()) {
      this.#waiting.take(event);
      stream.emit(event.text);
    }
  }

  /** Ends the GET connections. Kept events can still be replayed. */
  endStandalone(): void {
    for (const stream of this.#standalone.values()) stream.end();
  }

  /** Ends all streams and drops all kept messages. Called at the end of the session. */
  close(): void {
    this.#isClosed = true;
    for (const streams of [this.#ofRequests, this.#standalone]) for (const stream of streams.values()) stream.close();
    this.#waiting.clear();
  }

  #open(name: StreamName, from = 0): EventStream {
    const { streamId, isStandalone } = name;
    const streams = isStandalone ? this.#standalone : this.#ofRequests;
    const onGone = ({ lastSequence }: EventStream): void => {
      streams.delete(streamId);
      this.#rememberEnd(streamId, lastSequence);
    };
    const stream = new EventStream(name, this.#log, onGone, from);
    streams.set(streamId, stream);
    return stream;
  }

  #nextName(isStandalone: boolean): StreamName {
    return { isStandalone, streamId: ++this.#lastStreamId, replica: this.#replica };
  }

  /** Streams without a log are not resumed, so their events have no ids. */
  get #replica(): string {
    return this.#log?.replica ?? "";
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
