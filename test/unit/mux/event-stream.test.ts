import * as fc from "fast-check";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { EventLog } from "../../../src/mux/event-log.ts";
import { EventStream, formatEventId, parseEventId } from "../../../src/mux/event-stream.ts";
import { UNGUARDED } from "../support/defects.ts";
import { RecordedSink } from "../support/recorded-sink.ts";

const MAX_AGE_MS = 1000;

beforeEach(() => {
  vi.useFakeTimers({ now: 0 });
});

afterEach(() => {
  vi.useRealTimers();
});

function log(maxEvents = 100): EventLog {
  return new EventLog({ replayMaxBytes: 10_000, replayMaxAgeMs: MAX_AGE_MS, replayMaxEvents: maxEvents }, Date.now, UNGUARDED);
}

/** A stream, with how often it said that nothing more can be done with it. */
function open(events: EventLog, isStandalone = false) {
  const onGone = vi.fn<(stream: EventStream) => void>();
  return { stream: new EventStream(7, isStandalone, events, onGone), onGone };
}

describe("an event id", () => {
  it("is read as it was written, whatever stream and event it names", () => {
    fc.assert(
      fc.property(fc.boolean(), fc.nat(), fc.nat(), (isStandalone, streamId, sequence) => {
        const position = { isStandalone, streamId, sequence };
        expect(parseEventId(formatEventId(position))).toEqual(position);
      }),
    );
    expect(formatEventId({ isStandalone: true, streamId: 3, sequence: 17 })).toBe("s3-17");
    expect(formatEventId({ isStandalone: false, streamId: 3, sequence: 17 })).toBe("r3-17");
  });

  it.each(["", "r", "r1", "r1-", "r-1", "x1-1", "R1-1", "r1-1 ", " r1-1", "r1-1\n", "r-1-1", "r1.5-1", "r1e3-1", `r1-${"9".repeat(16)}`])(
    "is not %j",
    (text) => {
      expect(parseEventId(text)).toBeUndefined();
    },
  );
});

describe("a stream", () => {
  it("sends what comes to its connection at once, under ids that count from 1", () => {
    const { stream } = open(log());
    const sink = new RecordedSink();
    expect([stream.isAttached, stream.hasBegun]).toEqual([false, false]);
    stream.attach(sink);
    stream.emit("a");
    stream.emit("b");
    expect(sink.events).toEqual([
      { id: "r7-1", text: "a" },
      { id: "r7-2", text: "b" },
    ]);
    expect([stream.isAttached, stream.hasBegun, sink.isEnded]).toEqual([true, true, false]);
  });

  it("ends its connection behind the last message, and takes no more", () => {
    const { stream } = open(log());
    const sink = new RecordedSink();
    stream.attach(sink);
    stream.finish("answer");
    stream.emit("too late");
    stream.finish("too late");
    expect([sink.texts, sink.endCount, sink.isOvertaken, stream.isAttached]).toEqual([["answer"], 1, false, false]);
  });

  it("keeps what comes while nobody is connected, and goes on with the next connection from there", () => {
    const { stream } = open(log());
    const [first, second] = [new RecordedSink(), new RecordedSink()];
    stream.attach(first);
    stream.emit("a");
    stream.detach(first);
    stream.emit("b");
    stream.attach(second, 1);
    stream.emit("c");
    expect([first.texts, second.ids]).toEqual([["a"], ["r7-2", "r7-3"]]);
  });

  it("gives a client that comes back after the end what it missed, and the end", () => {
    const { stream } = open(log());
    stream.emit("a");
    stream.finish("answer");
    const sink = new RecordedSink();
    stream.attach(sink, 1);
    expect([sink.texts, sink.endCount]).toEqual([["answer"], 1]);
    expect([0, 1, 2, 3].map((sequence) => stream.isDeliveredUpTo(sequence))).toEqual([false, false, true, true]);
  });

  it("is not delivered while there may be more to come", () => {
    const { stream } = open(log());
    stream.emit("a");
    expect(stream.isDeliveredUpTo(1)).toBe(false);
    stream.end();
    expect(stream.isDeliveredUpTo(1)).toBe(true);
  });

  it("has reached the place before the first event, and every event that was sent, kept or not", () => {
    const { stream } = open(log(1));
    expect([0, 1].map((sequence) => stream.hasReached(sequence))).toEqual([true, false]);
    for (const text of ["a", "b"]) stream.emit(text);
    expect([0, 1, 2, 3].map((sequence) => stream.hasReached(sequence))).toEqual([true, true, true, false]);
  });

  it("ends the connection that another one overtakes, and minds its end no more", () => {
    const { stream } = open(log());
    const [halfOpen, current] = [new RecordedSink(), new RecordedSink()];
    stream.attach(halfOpen);
    stream.emit("a");
    stream.attach(current);
    stream.detach(halfOpen);
    stream.emit("b");
    expect([halfOpen.texts, halfOpen.endCount, halfOpen.isOvertaken]).toEqual([["a"], 1, true]);
    expect([current.texts, stream.isAttached]).toEqual([["a", "b"], true]);
  });

  it("gives up a connection that reads too slowly, and loses nothing by it", () => {
    const { stream } = open(log());
    const [slow, fast] = [new RecordedSink(2), new RecordedSink()];
    stream.attach(slow);
    for (const text of ["a", "b", "c", "d"]) stream.emit(text);
    expect([slow.texts, stream.isAttached]).toEqual([["a", "b"], false]);
    stream.detach(slow);
    stream.attach(fast, 2);
    expect(fast.texts).toEqual(["c", "d"]);
  });

  it("gives up a connection that is too slow for what it missed, and sends nothing out of order", () => {
    const { stream } = open(log());
    for (const text of ["a", "b", "c"]) stream.emit(text);
    const [slow, fast] = [new RecordedSink(1), new RecordedSink()];
    stream.attach(slow);
    stream.finish("d");
    expect([slow.texts, stream.isAttached]).toEqual([["a"], false]);
    stream.attach(fast, 1);
    expect([fast.texts, fast.isEnded]).toEqual([["b", "c", "d"], true]);
  });

  it("ends without a word when its session is over, and leaves nothing in the log", () => {
    const events = log();
    const { stream, onGone } = open(events);
    const sink = new RecordedSink();
    stream.attach(sink);
    stream.emit("a");
    stream.close();
    stream.emit("b");
    expect([sink.texts, sink.endCount, events.size, onGone.mock.calls.length]).toEqual([["a"], 1, 0, 1]);
  });
});

describe("a stream is gone", () => {
  it("of a request: once it is finished and nothing of it is kept, not before", () => {
    const { stream, onGone } = open(log());
    const sink = new RecordedSink();
    stream.attach(sink);
    stream.detach(sink);
    stream.emit("a");
    vi.advanceTimersByTime(2 * MAX_AGE_MS);
    expect(onGone).not.toHaveBeenCalled();
    stream.finish("answer");
    vi.advanceTimersByTime(MAX_AGE_MS - 1);
    expect(onGone).not.toHaveBeenCalled();
    vi.advanceTimersByTime(1);
    expect(onGone).toHaveBeenCalledExactlyOnceWith(stream);
  });

  it("of a request that ends without a message: at once", () => {
    const { stream, onGone } = open(log());
    stream.attach(new RecordedSink());
    stream.end();
    expect(onGone).toHaveBeenCalledExactlyOnceWith(stream);
  });

  it("of a GET: as soon as it has no connection, where nothing is kept", () => {
    const { stream, onGone } = open(log(), true);
    const sink = new RecordedSink();
    stream.attach(sink);
    expect(onGone).not.toHaveBeenCalled();
    stream.detach(sink);
    expect(onGone).toHaveBeenCalledExactlyOnceWith(stream);
  });

  it("of a GET: when nothing of it is kept any more, also where its connection was too slow", () => {
    const { stream, onGone } = open(log(), true);
    stream.attach(new RecordedSink(1));
    stream.emit("a");
    stream.emit("b");
    expect([stream.isAttached, onGone.mock.calls.length]).toEqual([false, 0]);
    vi.advanceTimersByTime(MAX_AGE_MS);
    expect(onGone).toHaveBeenCalledExactlyOnceWith(stream);
  });

  it("never while it is connected, however old its messages are", () => {
    const { stream, onGone } = open(log(), true);
    const sink = new RecordedSink();
    stream.attach(sink);
    stream.emit("a");
    vi.advanceTimersByTime(2 * MAX_AGE_MS);
    expect(onGone).not.toHaveBeenCalled();
    stream.emit("b");
    expect(sink.ids).toEqual(["s7-1", "s7-2"]);
  });
});
