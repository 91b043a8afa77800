import * as fc from "fast-check";
import { describe, expect, it, vi } from "vitest";
import { EventLog } from "../../src/sessions/streams/event-log.ts";
import { EventStream } from "../../src/sessions/streams/event-stream.ts";
import { SessionStreams } from "../../src/sessions/streams/session-streams.ts";
import { UNGUARDED } from "../support/defects.ts";
import { RecordedSink } from "./support/recorded-sink.ts";
import { useFakeClock } from "../support/fake-clock.ts";
import { ACCOUNT } from "./support/memory.ts";

useFakeClock();

/** Streams of requests, each of its own session, whose clients have read nothing yet. They share one event log. */
class Bench {
  readonly log: EventLog;
  readonly #streams = new Map<number, { readonly session: SessionStreams; readonly stream: EventStream }>();

  constructor({ maxBytes = 100_000, maxAgeMs = 1000, maxEvents = 100 } = {}) {
    this.log = new EventLog({ replayMaxBytes: maxBytes, replayMaxAgeMs: maxAgeMs, replayMaxEvents: maxEvents }, Date.now, UNGUARDED);
  }

  emit(index: number, ...texts: readonly string[]): void {
    for (const text of texts) this.#at(index).stream.emit(text);
  }

  /** Returns the events for a client that resumes this stream with the id before the first event. */
  replay(index: number): RecordedSink {
    const { session, stream } = this.#at(index);
    const sink = new RecordedSink();
    const found = session.find({ ...stream.name, sequence: 0 });
    if (found instanceof EventStream) {
      found.attach(sink);
      found.detach(sink);
    }
    return sink;
  }

  kept(index: number): string[] {
    return this.replay(index).texts;
  }

  endSession(index: number): void {
    this.#at(index).session.close();
    this.#streams.delete(index);
  }

  #at(index: number): { readonly session: SessionStreams; readonly stream: EventStream } {
    const session = new SessionStreams(this.log.forClient(ACCOUNT));
    const own = this.#streams.get(index) ?? { session, stream: session.openForRequest() };
    this.#streams.set(index, own);
    return own;
  }
}

describe("the events that are kept for a client that comes back", () => {
  it("the oldest events of all streams are forgotten beyond REPLAY_MAX_BYTES", () => {
    // Four pairs have 526 and 513 bytes in memory each. The next two events have 520 and 513.
    const bench = new Bench({ maxBytes: 4670 });
    for (const index of [0, 1, 2, 3]) bench.emit(index, `${index} é7890`, "x");
    expect([0, 1, 2, 3].map((index) => bench.kept(index).length)).toEqual([2, 2, 2, 2]);
    bench.emit(4, "12345678");
    bench.emit(5, "1");
    expect([0, 1, 2, 3, 4, 5].map((index) => bench.kept(index))).toEqual([
      ["x"],
      ...[1, 2, 3].map((index) => [`${index} é7890`, "x"]),
      ["12345678"],
      ["1"],
    ]);
  });

  it("a stream keeps its last REPLAY_MAX_EVENTS events", () => {
    const bench = new Bench({ maxEvents: 2 });
    bench.emit(0, "a", "b", "c", "d");
    expect(bench.replay(0).events.map(({ id, text }) => [id.split("-")[1], text])).toEqual([
      ["3", "c"],
      ["4", "d"],
    ]);
  });

  it("a flooded stream takes at most a quarter of REPLAY_MAX_BYTES", () => {
    const bench = new Bench({ maxBytes: 4 * 2 * (512 + "no 48".length) });
    bench.emit(0, "precious");
    for (let number = 10; number < 50; number++) bench.emit(1, `no ${number}`);
    expect([bench.kept(0), bench.kept(1)]).toEqual([["precious"], ["no 48", "no 49"]]);
  });

  it.each([600, 4100])("the newest event is kept, though its %d bytes exceed the share of its stream", (length) => {
    const bench = new Bench({ maxBytes: 4000 });
    const long = "x".repeat(length);
    bench.emit(0, "before", long);
    expect(bench.kept(0)).toEqual([long]);
    bench.emit(0, "after");
    expect([bench.kept(0), bench.log.size]).toEqual([["after"], 1]);
    bench.emit(0, long);
    vi.advanceTimersByTime(1000);
    expect([bench.kept(0), bench.log.size]).toEqual([[], 0]);
  });

  it("short events count with the memory that they need besides their text", () => {
    const bench = new Bench({ maxBytes: 513 * 5, maxEvents: 3 });
    for (let index = 0; index < 10; index++) bench.emit(index, String(index));
    expect(Array.from({ length: 10 }, (_, index) => bench.kept(index).length)).toEqual([0, 0, 0, 0, 0, 1, 1, 1, 1, 1]);
  });

  it("an event expires at REPLAY_MAX_AGE_MS to the millisecond, with one timer for all", () => {
    const bench = new Bench({ maxAgeMs: 500 });
    bench.emit(0, "a");
    vi.advanceTimersByTime(200);
    bench.emit(1, "b");
    bench.emit(0, "c");
    expect(vi.getTimerCount()).toBe(1);
    const seen = [299, 1, 199, 1].map((ms) => {
      vi.advanceTimersByTime(ms);
      return [...bench.kept(0), ...bench.kept(1)].join("");
    });
    expect([seen, vi.getTimerCount()]).toEqual([["acb", "cb", "cb", ""], 0]);
  });

  it("a closed log leaves no timer behind", () => {
    const bench = new Bench();
    bench.emit(0, "a");
    bench.log.close();
    bench.emit(0, "b");
    expect(vi.getTimerCount()).toBe(0);
  });

  it("the bounds hold, the newest event stays, and each stream loses its oldest first", () => {
    const index = fc.nat({ max: 3 });
    const steps = fc.array(
      fc.oneof(
        { weight: 6, arbitrary: fc.record({ kind: fc.constant("emit" as const), index, length: fc.nat({ max: 30 }) }) },
        { weight: 2, arbitrary: fc.record({ kind: fc.constant("wait" as const), ms: fc.nat({ max: 150 }) }) },
        { weight: 1, arbitrary: fc.record({ kind: fc.constant("end" as const), index }) },
      ),
      { maxLength: 60 },
    );
    fc.assert(
      fc.property(steps, fc.integer({ min: 1, max: 120 }), fc.integer({ min: 1, max: 6 }), (sequence, maxBytes, maxEvents) => {
        const maxAgeMs = 100;
        const bench = new Bench({ maxBytes, maxAgeMs, maxEvents });
        const emittedAtMs = new Map<string, number>();
        const emitted: string[][] = [[], [], [], []];
        for (const step of sequence) {
          let newest: string | undefined;
          if (step.kind === "wait") vi.advanceTimersByTime(step.ms);
          else if (step.kind === "end") {
            bench.endSession(step.index);
            emitted[step.index] = [];
          } else {
            newest = `${emittedAtMs.size}:${"é".repeat(step.length)}`;
            emittedAtMs.set(newest, Date.now());
            emitted[step.index]?.push(newest);
            bench.emit(step.index, newest);
          }
          const kept = emitted.map((_, each) => bench.kept(each));
          const all = kept.flat();
          expect(bench.log.size).toBe(all.length);
          expect(bytesOf(all)).toBeLessThanOrEqual(all.length > 1 ? maxBytes : Number.POSITIVE_INFINITY);
          for (const text of all) expect((emittedAtMs.get(text) ?? 0) + maxAgeMs).toBeGreaterThan(Date.now());
          expect(newest === undefined || all.includes(newest)).toBe(true);
          for (const [each, own] of kept.entries()) {
            expect(own).toEqual(own.length === 0 ? [] : emitted[each]?.slice(-own.length));
            expect(own.length).toBeLessThanOrEqual(maxEvents);
            expect(bytesOf(own)).toBeLessThanOrEqual(own.length > 1 ? maxBytes / 4 : Number.POSITIVE_INFINITY);
          }
        }
        vi.advanceTimersByTime(maxAgeMs);
        expect([bench.log.size, vi.getTimerCount()]).toEqual([0, 0]);
      }),
    );
  });
});

function bytesOf(texts: readonly string[]): number {
  return texts.reduce((sum, text) => sum + Buffer.byteLength(text), 0);
}
