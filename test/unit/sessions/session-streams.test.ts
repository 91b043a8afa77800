import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { EventLog } from "../../../src/sessions/streams/event-log.ts";
import { type EventPosition, parseEventId } from "../../../src/sessions/streams/event-id.ts";
import { EventStream } from "../../../src/sessions/streams/event-stream.ts";
import { SessionStreams } from "../../../src/sessions/streams/session-streams.ts";
import { UNGUARDED } from "../../support/defects.ts";
import { RecordedSink } from "../../server/support/recorded-sink.ts";
import { ACCOUNT } from "../../server/support/memory.ts";

const MAX_AGE_MS = 1000;
const MAX_STANDALONE_STREAMS = 16;

let log: EventLog;
let streams: SessionStreams;

beforeEach(() => {
  vi.useFakeTimers({ now: 0 });
  log = new EventLog({ replayMaxBytes: 10_000, replayMaxAgeMs: MAX_AGE_MS, replayMaxEvents: 100 }, Date.now, UNGUARDED);
  streams = new SessionStreams(log.forClient(ACCOUNT));
});

afterEach(() => {
  vi.useRealTimers();
});

/** Connects like a GET: to a new stream, with the waiting messages first. */
function get(sink = new RecordedSink()): { readonly stream: EventStream; readonly sink: RecordedSink } {
  const stream = streams.openStandalone();
  stream.attach(sink);
  streams.deliverWaiting();
  return { stream, sink };
}

function withReplica(eventIds: readonly string[]): string[] {
  return eventIds.map((eventId) => `${eventId}-${log.replica}`);
}

/** @param eventId without the name of the replica. */
function positionOf(eventId: string): EventPosition | undefined {
  return parseEventId(`${eventId}-${log.replica}`);
}

function find(eventId: string): ReturnType<SessionStreams["find"]> {
  const position = positionOf(eventId);
  return position === undefined ? "unknown" : streams.find(position);
}

/** Connects like a GET with Last-Event-ID. @returns the events that are sent, or the reason why there is no stream. */
function resume(eventId: string, sink = new RecordedSink()): RecordedSink | string {
  const stream = find(eventId);
  if (!(stream instanceof EventStream)) return stream;
  stream.attach(sink, positionOf(eventId)?.sequence);
  if (stream.isStandalone) streams.deliverWaiting();
  return sink;
}

describe("a message that belongs to no request", () => {
  it("a message goes to the newest GET stream and to no other", () => {
    const [older, newer, request] = [get(), get(), new RecordedSink()];
    streams.openForRequest().attach(request);
    streams.emit("a");
    expect([older.sink.texts, newer.sink.texts, request.texts]).toEqual([[], ["a"], []]);
    newer.stream.detach(newer.sink);
    streams.emit("b");
    expect([older.sink.texts, newer.sink.texts, request.texts]).toEqual([["b"], ["a"], []]);
  });

  it("a message goes to the stream that was resumed last", () => {
    const [first, second] = [get(), get()];
    second.stream.detach(second.sink);
    streams.emit("kept by the first");
    first.stream.detach(first.sink);
    const third = get();
    const resumed = resume("s1-1");
    streams.emit("a");
    expect([third.sink.texts, (resumed as RecordedSink).texts]).toEqual([[], ["a"]]);
  });

  it("a message waits for the next GET stream and is delivered once, in order", () => {
    streams.openForRequest().attach(new RecordedSink());
    for (const text of ["a", "b", "b"]) streams.emit(text);
    const [first, second] = [get(), get()];
    streams.emit("c");
    expect([first.sink.texts, second.sink.texts]).toEqual([["a", "b", "b"], ["c"]]);
    expect(first.sink.ids).toEqual(withReplica(["s2-1", "s2-2", "s2-3"]));
  });

  it("a message after a broken connection comes after those that the connection missed", () => {
    const slow = get(new RecordedSink(1));
    for (const text of ["a", "b", "c"]) streams.emit(text);
    expect(slow.sink.texts).toEqual(["a"]);
    expect((resume("s1-1") as RecordedSink).texts).toEqual(["b", "c"]);
  });

  it("a waiting message expires like a kept event", () => {
    streams.emit("a");
    vi.advanceTimersByTime(MAX_AGE_MS);
    expect([get().sink.texts, log.size]).toEqual([[], 0]);
  });

  it("a waiting message stays with the stream whose reader was too slow", () => {
    for (const text of ["a", "b", "c"]) streams.emit(text);
    const { sink } = get(new RecordedSink(1));
    expect([sink.texts, (resume("s1-1") as RecordedSink).texts]).toEqual([["a"], ["b", "c"]]);
  });

  it("identical waiting messages are sent once, and each time to an open stream", () => {
    for (const text of ["changed", "other", "changed", "changed"]) streams.emitOnce(text);
    const { sink } = get();
    expect(sink.texts).toEqual(["changed", "other"]);
    streams.emitOnce("changed");
    streams.emitOnce("changed");
    expect(sink.texts).toEqual(["changed", "other", "changed", "changed"]);
  });
});

describe("a stream whose connection ends or is replaced", () => {
  it("the end of a replaced connection changes nothing", () => {
    const { stream, sink: former } = get();
    streams.emit("a");
    const current = resume("s1-1") as RecordedSink;
    stream.detach(former);
    streams.emit("b");
    expect([former.texts, former.endCount, former.isOvertaken]).toEqual([["a"], 1, true]);
    expect([current.texts, current.isEnded]).toEqual([["b"], false]);
  });

  it("a message after a reader was too slow goes to the next GET stream", () => {
    const slow = get(new RecordedSink(1));
    for (const text of ["a", "b", "c"]) streams.emit(text);
    const next = get();
    expect([slow.sink.texts, slow.stream.isAttached, next.sink.texts]).toEqual([["a"], false, ["c"]]);
    expect((resume("s1-1") as RecordedSink).texts).toEqual(["b"]);
  });

  it("a connected stream outlives the expiry of its messages", () => {
    const { sink } = get();
    streams.emit("a");
    vi.advanceTimersByTime(2 * MAX_AGE_MS);
    streams.emit("b");
    expect(sink.ids).toEqual(withReplica(["s1-1", "s1-2"]));
  });

  it("the stream of a request in flight is found after its messages expire", () => {
    const stream = streams.openForRequest();
    stream.emit("a");
    vi.advanceTimersByTime(2 * MAX_AGE_MS);
    stream.finish("answer");
    expect((resume("r1-1") as RecordedSink).texts).toEqual(["answer"]);
  });
});

describe("the event id of a client that resumes", () => {
  it("an event id finds the stream of a request, finished or not", () => {
    const stream = streams.openForRequest();
    stream.emit("a");
    expect([find("r1-0"), find("r1-1")]).toEqual([stream, stream]);
    stream.finish("answer");
    expect([find("r1-1"), find("r1-2")]).toEqual([stream, "delivered"]);
  });

  it("an event id of an expired stream tells a full delivery from a partial one", () => {
    streams.openForRequest().finish("answer");
    streams.openForRequest().end();
    vi.advanceTimersByTime(MAX_AGE_MS);
    expect([find("r1-0"), find("r1-1"), find("r2-0")]).toEqual(["unknown", "delivered", "delivered"]);
  });

  it("an event id is unknown after a thousand later requests", () => {
    for (let count = 0; count < 1001; count++) streams.openForRequest().end();
    expect([find("r1-0"), find("r2-0"), find("r1001-0")]).toEqual(["unknown", "delivered", "delivered"]);
  });

  it.each(["r0-0", "r2-0", "s2-0", "r999999999999999-1", "s1-0", "r1-2"])(
    "the event id %s is unknown to a session with one request stream",
    (id) => {
      streams.openForRequest().emit("a");
      expect(find(id)).toBe("unknown");
    },
  );

  it("an event id that confuses a GET stream with a request stream is unknown", () => {
    get();
    expect(find("r1-0")).toBe("unknown");
  });

  it("a GET stream without kept events resumes with new event ids", () => {
    const { stream, sink } = get();
    streams.emit("a");
    stream.detach(sink);
    streams.emit("b");
    vi.advanceTimersByTime(MAX_AGE_MS - 1);
    streams.emit("c");
    vi.advanceTimersByTime(1);
    const resumed = resume("s1-1") as RecordedSink;
    expect(resumed.events).toEqual([{ id: `s1-2-${log.replica}`, text: "c" }]);
    streams.emit("d");
    // Its client has read none of these.
    const again = resume("s1-1") as RecordedSink;
    expect(again.events).toEqual([
      { id: `s1-2-${log.replica}`, text: "c" },
      { id: `s1-3-${log.replica}`, text: "d" },
    ]);
  });

  it("an event id never finds a stream of another session", () => {
    const other = new SessionStreams(log.forClient(ACCOUNT));
    other.openForRequest().finish("secret");
    const own = streams.openForRequest();
    own.finish("own");
    expect((resume("r1-0") as RecordedSink).texts).toEqual(["own"]);
    expect(find("r2-0")).toBe("unknown");
  });
});

describe("GET streams", () => {
  it("one GET stream too many ends the oldest", () => {
    const opened = Array.from({ length: MAX_STANDALONE_STREAMS }, () => get());
    expect(opened.filter(({ sink }) => sink.isEnded)).toEqual([]);
    get();
    expect(opened.map(({ sink }) => sink.isEnded)).toEqual(opened.map((_, index) => index === 0));
  });

  it("a resumed GET stream counts, unless it is connected already", () => {
    for (let count = 0; count < 3; count++) {
      const { stream, sink } = get();
      streams.emit("a");
      stream.detach(sink);
    }
    const opened = Array.from({ length: MAX_STANDALONE_STREAMS - 1 }, () => get());
    const resumed = resume("s1-0");
    expect(opened.filter(({ sink }) => sink.isEnded)).toEqual([]);
    const overtaking = resume("s1-0");
    expect([(resumed as RecordedSink).isEnded, opened.filter(({ sink }) => sink.isEnded)]).toEqual([true, []]);
    resume("s2-0");
    resume("s3-0");
    expect(opened.map(({ sink }) => sink.isEnded)).toEqual(opened.map((_, index) => index < 2));
    expect((overtaking as RecordedSink).isEnded).toBe(false);
  });

  it("a client that fetches the rest of an ended stream ends no other stream", () => {
    const first = get(new RecordedSink(1));
    streams.emit("a");
    streams.emit("b");
    const opened = Array.from({ length: MAX_STANDALONE_STREAMS }, () => get());
    first.stream.end();
    const rest = resume("s1-1") as RecordedSink;
    expect([rest.texts, rest.isEnded, find("s1-2")]).toEqual([["b"], true, "delivered"]);
    expect(opened.filter(({ sink }) => sink.isEnded)).toEqual([]);
  });

  it("all GET streams can end at once while request streams go on", () => {
    const [first, second, request] = [get(), get(), new RecordedSink()];
    streams.openForRequest().attach(request);
    expect([streams.hasStandalone, streams.isAttached]).toEqual([true, true]);
    streams.endStandalone();
    expect([first, second].map(({ sink }) => sink.isEnded)).toEqual([true, true]);
    expect([streams.hasStandalone, streams.isAttached, request.isEnded]).toEqual([false, true, false]);
    streams.emit("after");
    expect([first.sink.texts, second.sink.texts, log.size]).toEqual([[], [], 1]);
  });
});

describe("the streams of a client that cannot come back", () => {
  it("streams without a log send every message and keep none", () => {
    streams = new SessionStreams(undefined);
    streams.emit("before anybody reads");
    const { sink, stream } = get();
    const [request, answer] = [streams.openForRequest(), new RecordedSink()];
    request.attach(answer);
    streams.emit("a");
    request.finish("answer");
    stream.detach(sink);
    streams.emit("after");
    expect([sink.ids, sink.texts, answer.texts, answer.isEnded, log.size]).toEqual([["s1-1-"], ["a"], ["answer"], true, 0]);
    expect(get().sink.texts).toEqual([]);
  });
});

describe("a session that is over", () => {
  it("a closed session ends every connection and keeps no event", () => {
    streams.emit("waiting");
    const { sink, stream } = get();
    const request = streams.openForRequest();
    request.attach(new RecordedSink());
    request.emit("progress");
    streams.openForRequest().finish("answer");
    stream.detach(sink);
    streams.emit("waiting again");
    expect(log.size).toBe(4);
    streams.close();
    expect([log.size, streams.isAttached]).toEqual([0, false]);
    request.finish("too late");
    streams.emit("too late");
    streams.emitOnce("too late");
    expect(log.size).toBe(0);
  });
});
