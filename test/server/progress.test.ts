import { describe, expect, it, vi } from "vitest";
import { LaneBench } from "./support/lane-bench.ts";
import { useFakeClock } from "../support/fake-clock.ts";

/** Equal to the limits of the bench. */
const REQUEST_TIMEOUT_MS = 1000;

useFakeClock();

function callText(token: string): string {
  return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","_meta":{"progressToken":${token}}}}`;
}

function progressText(token: unknown): string {
  return `{"jsonrpc":"2.0","params":{"message":"1.0","total":9007199254740993, "progressToken" : ${String(token)}},"method":"notifications/progress"}`;
}

describe("progress of the server", () => {
  it.each([(id: unknown) => `"0${String(id)}"`, () => "0", () => "null", () => "{}"])(
    "progress under another token is dropped and renews no timeout (%#)",
    (tokenFor) => {
      const bench = LaneBench.ready();
      const call = bench.request(bench.join(), callText("1"));
      vi.advanceTimersByTime(REQUEST_TIMEOUT_MS - 1);
      bench.say(progressText(tokenFor(bench.heard()[0]?.["id"])));
      vi.advanceTimersByTime(1);
      expect([call.outcome, call.emitted, bench.dropped.notifications]).toEqual(["REQUEST_TIMEOUT", [], 1]);
    },
  );

  it("progress for a call that the server has not read is dropped", () => {
    const bench = LaneBench.ready();
    const session = bench.join();
    bench.request(session, callText("1"));
    const first = Number(bench.heard()[0]?.["id"]);
    bench.upstream.isReading = false;
    const unread = bench.request(session, callText("2"));
    bench.say(progressText(first + 1));
    expect([unread.emitted, bench.dropped.notifications]).toEqual([[], 1]);
  });
});
