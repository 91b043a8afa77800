import { describe, expect, it, vi } from "vitest";
import { RequestRate } from "../../../../src/http/page/request-rate.ts";

const nowMs = vi.fn<() => number>();

/** Sets the clock to the middle of a second since the epoch. */
function setClock(second: number): void {
  nowMs.mockReturnValue(second * 1000 + 500);
}

describe("the rate of requests", () => {
  it("each second from the start on is there, also without requests", () => {
    setClock(100);
    const rate = new RequestRate(nowMs);
    rate.count(false, 2);
    rate.count(true, 4.25);
    rate.count(true, undefined);
    setClock(102);
    rate.count(false, 1);
    expect(rate.between(0, 102)).toEqual([
      { at: "1970-01-01T00:01:40.000Z", requests: 3, errors: 2, timed: 2, meanMs: 3.1, longestMs: 4.3 },
      { at: "1970-01-01T00:01:41.000Z", requests: 0, errors: 0, timed: 0, meanMs: null, longestMs: null },
    ]);
    expect(rate.between(102, 103).map(({ requests }) => requests)).toEqual([1]);
  });

  it("a second with rejected requests only has no latency", () => {
    setClock(100);
    const rate = new RequestRate(nowMs);
    rate.count(true, undefined);
    expect(rate.between(100, 101)).toMatchObject([{ requests: 1, errors: 1, timed: 0, meanMs: null }]);
  });

  it("two minutes are kept", () => {
    setClock(1000);
    const rate = new RequestRate(nowMs);
    for (let second = 1000; second < 2000; second++) {
      setClock(second);
      rate.count(false, 1);
    }
    const seconds = rate.between(0, 1999);
    expect(seconds).toHaveLength(120);
    expect(seconds.every(({ requests }) => requests === 1)).toBe(true);
  });
});
