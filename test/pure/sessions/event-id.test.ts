import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { formatEventId, parseEventId } from "../../../src/sessions/streams/event-id.ts";
import { useFakeClock } from "../../support/fake-clock.ts";
useFakeClock();

/** The JSON text of an id, or undefined. */
const REQUEST_ID_TEXT = fc.option(
  fc.oneof(fc.integer(), fc.string({ maxLength: 10 })).map((id) => JSON.stringify(id)),
  { nil: undefined },
);

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
});
