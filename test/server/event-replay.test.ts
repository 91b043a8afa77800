import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { EventLog } from "../../src/sessions/streams/event-log.ts";
import { formatEventId, parseEventId } from "../../src/sessions/streams/event-id.ts";
import { EventStream } from "../../src/sessions/streams/event-stream.ts";
import { UNGUARDED } from "../support/defects.ts";
import { RecordedSink } from "./support/recorded-sink.ts";
import { useFakeClock } from "../support/fake-clock.ts";
import { ACCOUNT } from "./support/memory.ts";

useFakeClock();

/** The JSON text of an id, or undefined. */
const REQUEST_ID_TEXT = fc.option(
  fc.oneof(fc.integer(), fc.string({ maxLength: 10 })).map((id) => JSON.stringify(id)),
  { nil: undefined },
);

/** A stream that keeps this many events. */
function open(maxEvents: number): EventStream {
  const log = new EventLog({ replayMaxBytes: 100_000, replayMaxAgeMs: 1000, replayMaxEvents: maxEvents }, Date.now, UNGUARDED);
  return new EventStream({ isStandalone: false, streamId: 7, replica: log.replica }, log.forClient(ACCOUNT), () => undefined);
}

describe("an event id", () => {
  it("an event id is parsed as it was written, for any stream and event", () => {
    fc.assert(
      fc.property(fc.boolean(), fc.nat(), fc.nat(), REQUEST_ID_TEXT, (isStandalone, streamId, sequence, requestIdText) => {
        const position = { isStandalone, streamId, sequence, replica: "0a1b2c3d", requestIdText };
        expect(parseEventId(formatEventId(position))).toEqual(position);
      }),
    );
    const position = { streamId: 3, sequence: 17, replica: "0a1b2c3d" };
    expect(formatEventId({ ...position, isStandalone: true })).toBe("s3-17-0a1b2c3d");
    expect(formatEventId({ ...position, isStandalone: false, requestIdText: "7" })).toBe("r3-17-0a1b2c3d-Nw");
  });

  it.each(["", "r", "r1", "r1-", "r-1", "x1-1", "R1-1", "r1-1 ", " r1-1", "r1-1\n", "r-1-1", "r1.5-1", "r1e3-1", `r1-${"9".repeat(16)}`])(
    "%j is not the beginning of an event id",
    (text) => {
      expect([parseEventId(text), parseEventId(`${text}-0a1b2c3d`)]).toEqual([undefined, undefined]);
    },
  );

  it.each(["0a1b2c3", "0a1b2c3D", "0a1b2c3d-", "0a1b2c3d-Nw-", "0a1b2c3d-Nw==", `0a1b2c3d-${"A".repeat(89)}`])(
    "%j is not the end of an event id",
    (text) => {
      expect(parseEventId(`r1-1-${text}`)).toBeUndefined();
    },
  );

  it.each(["{}", "[1]", "null", "true", "1 ", "\n1", '"a', '1,"x":1', '"a"}{"b"', "__proto__"])(
    "an event id with %j in place of a request id is not valid",
    (text) => {
      expect(parseEventId(`r1-1-0a1b2c3d-${Buffer.from(text).toString("base64url")}`)).toBeUndefined();
    },
  );

  it("a long id of a request is not part of an event id", () => {
    const position = { isStandalone: false, streamId: 1, sequence: 1, replica: "0a1b2c3d", requestIdText: `"${"x".repeat(64)}"` };
    expect(formatEventId(position)).toBe("r1-1-0a1b2c3d");
  });
});

describe("replay", () => {
  it("a replay from any position sends exactly the later kept events, in order, once", () => {
    const counts = fc.tuple(fc.nat({ max: 12 }), fc.nat({ max: 12 }), fc.integer({ min: 1, max: 12 }));
    fc.assert(
      fc.property(counts, fc.nat({ max: 14 }), fc.boolean(), ([before, after, maxEvents], position, isFinished) => {
        const stream = open(maxEvents);
        const sink = new RecordedSink();
        for (let number = 1; number <= before; number++) stream.emit(`event ${number}`);
        stream.attach(sink, position);
        for (let number = before + 1; number <= before + after; number++) stream.emit(`event ${number}`);
        if (isFinished) stream.end();
        const firstKept = Math.max(1, before - maxEvents + 1);
        const expected: string[] = [];
        for (let number = firstKept; number <= before + after; number++) {
          if (number > position || number > before) expected.push(`event ${number}`);
        }
        expect(sink.texts).toEqual(expected);
        expect(sink.ids).toEqual(expected.map((text) => formatEventId({ ...stream.name, sequence: Number(text.slice("event ".length)) })));
        expect(sink.isEnded).toBe(isFinished);
      }),
    );
  });

  it("a client gets every event once, in order, over any number of broken connections", () => {
    fc.assert(
      fc.property(fc.array(fc.nat({ max: 4 }), { maxLength: 12 }), fc.nat({ max: 3 }), (patience, unread) => {
        const stream = open(100);
        const read: string[] = [];
        let emitted = 0;
        for (const maxEvents of patience) {
          const sink = new RecordedSink(maxEvents);
          stream.attach(sink, read.length);
          for (let count = 0; count < unread; count++) stream.emit(`event ${++emitted}`);
          read.push(...sink.texts);
          stream.detach(sink);
        }
        const last = new RecordedSink();
        stream.attach(last, read.length);
        read.push(...last.texts);
        expect(read).toEqual(Array.from({ length: emitted }, (_, index) => `event ${index + 1}`));
      }),
    );
  });
});
