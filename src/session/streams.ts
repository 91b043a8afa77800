import { randomInt } from "node:crypto";
import { readValue } from "../json/value.ts";
import { type MemoryAccount, RecentMap } from "../memory.ts";
import { type EventLog, KeptEvents, type LoggedEvent } from "./replay.ts";

/** Longer ids of requests are not part of event ids. In bytes of JSON. */
const MAX_REQUEST_ID_BYTES = 64;

interface StreamName {
  readonly isStandalone: boolean;
  readonly streamId: number;
  /** The one that has opened the stream; undefined for a client that cannot reconnect. */
  readonly replica: string | undefined;
  readonly requestIdText?: string | undefined;
}

/**
 * Returns an event id: `r3-17-REPLICA-REQUEST` for event 17 of stream 3 if a POST opened it, `s3-17-REPLICA` if a GET did. It is unique in
 * the session and names the stream to resume (MCP 2025-11-25, basic/transports, resumability). With the id of the request, another replica
 * can answer that with an error. Undefined for a stream that cannot be resumed.
 *
 * @param sequence from 1; 0 before the first event.
 */
function formatEventId({ isStandalone, streamId, replica, requestIdText = "" }: StreamName, sequence: number): string | undefined {
  if (replica === undefined) return undefined;
  const position = `${isStandalone ? "s" : "r"}${streamId}-${sequence}-${replica}`;
  const request = Buffer.from(requestIdText);
  return request.length === 0 || request.length > MAX_REQUEST_ID_BYTES ? position : `${position}-${request.toString("base64url")}`;
}

export function parseEventId(text: string): { readonly name: StreamName; readonly sequence: number } | undefined {
  const match = /^([rs])(\d{1,15})-(\d{1,15})-([0-9a-f]{8})(?:-([\w-]{1,88}))?$/.exec(text);
  if (match === null) return undefined;
  const [, kind, streamId, sequence, replica = "", request] = match;
  const requestIdText = request === undefined ? undefined : Buffer.from(request, "base64url").toString();
  if (requestIdText !== undefined && !isRequestId(requestIdText)) return undefined;
  return { name: { isStandalone: kind === "s", streamId: Number(streamId), replica, requestIdText }, sequence: Number(sequence) };
}

/** JSON text of a string or a number, without white space around it. */
function isRequestId(text: string): boolean {
  if (!/^["\d-].*["\d]$|^\d$/s.test(text)) return false;
  try {
    return ["string", "number"].includes(typeof readValue(text));
  } catch {
    return false;
  }
}

export interface EventSink {
  /**
   * @param eventId undefined for a client that cannot reconnect. @returns false if the reader is too far behind, and the connection
   * unusable.
   */
  send(eventId: string | undefined, text: string): boolean;
  /**
   * After the events that were sent.
   *
   * @param isOvertaken true if a newer connection resends the unread events.
   */
  end(isOvertaken?: boolean): void;
}

/** Messages go to one connection at a time, and the newest are kept for the next one. */
export class EventStream {
  readonly name: StreamName;
  isFinished = false;
  readonly #kept: KeptEvents;
  readonly #onGone: (stream: EventStream) => void;
  #sink: EventSink | undefined;

  /**
   * @param onGone called when no events are kept and the stream has ended, or is a GET stream without a connection.
   * @param lastSequence that of its last event so far.
   */
  constructor(
    name: StreamName,
    account: MemoryAccount,
    log: EventLog | undefined,
    onGone: (stream: EventStream) => void,
    lastSequence = 0,
  ) {
    [this.name, this.#onGone] = [name, onGone];
    this.#kept = new KeptEvents(account, log, () => this.#checkGone(), lastSequence);
  }

  get isAttached(): boolean {
    return this.#sink !== undefined;
  }

  /** 0 if no message was sent, so that the client has no event id to reconnect with. */
  get lastSequence(): number {
    return this.#kept.lastSequence;
  }

  hasAllAfter(sequence: number): boolean {
    const [oldest] = this.#kept.values();
    return sequence === this.lastSequence || (oldest !== undefined && oldest.sequence <= sequence + 1);
  }

  eventId(sequence: number): string | undefined {
    return formatEventId(this.name, sequence);
  }

  /** Kept events after `sequence` come first. Ends a former connection. */
  attach(sink: EventSink, sequence = 0): void {
    const former = this.#sink;
    this.#sink = sink;
    former?.end(true);
    for (const event of this.#kept.values()) {
      if (event.sequence > sequence) this.#send(event);
    }
    if (this.isFinished) this.#endSink();
  }

  detach(sink: EventSink): void {
    if (this.#sink !== sink) return;
    this.#sink = undefined;
    this.#checkGone();
  }

  emit(text: string): void {
    if (!this.isFinished) this.#send(this.#kept.add(text));
  }

  /** Kept events stay for a client that reconnects. */
  end(): void {
    this.isFinished = true;
    this.#endSink();
    this.#checkGone();
  }

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
    const isOver = this.isFinished || (this.name.isStandalone && this.#sink === undefined);
    if (isOver && this.#kept.size === 0) this.#onGone(this);
  }
}

/** GET connections of a session. The oldest ends, since a half-open one never would. */
const MAX_STANDALONE_STREAMS = 16;
const MAX_REMEMBERED_ENDS = 1000;
/** First ids of streams of a session that was taken up. The last one has 15 digits, as many as event ids have. */
const MIN_TAKEN_UP_ID = 2 ** 31;
const MAX_TAKEN_UP_ID = 2 ** 47;

/** The streams of one session, and the messages that wait for one. A message goes to exactly one. */
export class SessionStreams {
  /** Opened elsewhere: the client has not heard of changes since then. */
  readonly isTakenUp: boolean;
  readonly memory: MemoryAccount;
  readonly #log: EventLog | undefined;
  readonly #ofRequests = new Map<number, EventStream>();
  /** In order of connection. Separate, since every message searches them. */
  readonly #standalone = new Map<number, EventStream>();
  readonly #waiting: KeptEvents;
  /**
   * The last event of removed streams. A GET stream resumes from it. For a request it distinguishes a fully delivered stream from a dropped
   * one.
   */
  readonly #endedAt = new RecentMap<number, number>(MAX_REMEMBERED_ENDS);
  readonly #firstStreamId: number;
  #lastStreamId: number;
  #isClosed = false;

  /**
   * @param log undefined for a client that cannot reconnect: nothing is kept.
   * @param isTakenUp true if the session may have had other streams in this process. Those have other ids.
   */
  constructor(account: MemoryAccount, log?: EventLog, isTakenUp = false) {
    [this.memory, this.#log, this.isTakenUp] = [account, log, isTakenUp];
    this.#firstStreamId = isTakenUp ? randomInt(MIN_TAKEN_UP_ID, MAX_TAKEN_UP_ID) : 1;
    this.#lastStreamId = this.#firstStreamId - 1;
    this.#waiting = new KeptEvents(account, log);
  }

  get canResume(): boolean {
    return this.#log !== undefined;
  }

  get isAttached(): boolean {
    return this.hasStandalone || this.#ofRequests.values().some((stream) => stream.isAttached);
  }

  get hasStandalone(): boolean {
    return this.#newestStandalone() !== undefined;
  }

  /** @param requestIdText undefined for a batch. */
  openForRequest(requestIdText?: string): EventStream {
    return this.#open({ isStandalone: false, streamId: ++this.#lastStreamId, replica: this.#log?.replica, requestIdText });
  }

  /** Call `deliverWaiting` when it is attached. */
  openStandalone(): EventStream {
    this.#makeRoom();
    return this.#open({ isStandalone: true, streamId: ++this.#lastStreamId, replica: this.#log?.replica });
  }

  /**
   * @returns "delivered" if no event can follow, "unknown" if the position is not known, or "elsewhere" if the stream was not one of this
   * object.
   */
  find(name: StreamName, sequence: number): EventStream | "delivered" | "unknown" | "elsewhere" {
    const { streamId, isStandalone, replica } = name;
    if (replica !== this.#log?.replica) return "elsewhere";
    if (streamId < this.#firstStreamId || streamId > this.#lastStreamId) return this.isTakenUp ? "elsewhere" : "unknown";
    const stream = this.#standalone.get(streamId) ?? this.#ofRequests.get(streamId);
    // A GET stream without kept events is reopened under its old id, so that the client's event id stays valid.
    if (stream === undefined && isStandalone) {
      this.#makeRoom();
      return this.#open(name, Math.max(sequence, this.#endedAt.get(streamId) ?? 0));
    }
    if (stream === undefined) return sequence >= (this.#endedAt.get(streamId) ?? Infinity) ? "delivered" : "unknown";
    if (stream.name.isStandalone !== isStandalone || sequence > stream.lastSequence) return "unknown";
    if (stream.isFinished && sequence === stream.lastSequence) return "delivered";
    // Any event of a batch may be a response. That of one request is the newest event, which is kept.
    if (!isStandalone && stream.name.requestIdText === undefined && !stream.hasAllAfter(sequence)) return "unknown";
    if (isStandalone && !stream.isFinished) {
      if (!stream.isAttached) this.#makeRoom();
      this.#standalone.delete(streamId);
      this.#standalone.set(streamId, stream);
    }
    return stream;
  }

  /** Uses the newest GET stream, since an older one may be half-open. Keeps the message if there is none. */
  emit(text: string): void {
    // A private server may still send messages while it stops.
    if (this.#isClosed) return;
    const stream = this.#newestStandalone();
    if (stream === undefined) this.#waiting.add(text);
    else stream.emit(text);
  }

  emitOnce(text: string): void {
    if (this.#waiting.values().some((event) => event.text === text)) return;
    this.emit(text);
  }

  deliverWaiting(): void {
    const stream = this.#newestStandalone();
    if (stream === undefined) return;
    for (const event of this.#waiting.values()) {
      this.#waiting.take(event);
      stream.emit(event.text);
    }
  }

  endStandalone(): void {
    for (const stream of this.#standalone.values()) stream.end();
  }

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
      if (this.#isClosed) return;
      this.#endedAt.set(streamId, lastSequence);
    };
    const stream = new EventStream(name, this.memory, this.#log, onGone, from);
    streams.set(streamId, stream);
    return stream;
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
