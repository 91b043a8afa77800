import { describe, expect, it, vi } from "vitest";
import { type CallLimits, Semaphore } from "../../src/server/call.ts";
import type { Config } from "../../src/config/load.ts";
import type { Session } from "../../src/session/session.ts";
import { LaneBench } from "./support/lane-bench.ts";
import type { RecordedReply } from "./support/recorded-reply.ts";
import { useFakeClock } from "../support/fake-clock.ts";

useFakeClock();

const outcomes = (replies: readonly RecordedReply[]): unknown[] => replies.map(({ outcome }) => outcome);

function call(bench: LaneBench, session: Session, name: string, terms?: CallLimits): RecordedReply {
  const params = { name, _meta: { progressToken: name } };
  return bench.request(session, { id: name, method: "tools/call", params }, true, Date.now(), terms);
}

describe.each([
  ["shorter", 300],
  ["longer", 5000],
])("a call with a timeout of its own that is %s than REQUEST_TIMEOUT_MS", (_which, timeoutMs) => {
  it("progress renews the call's own timeout up to ten times", () => {
    const bench = LaneBench.ready({ requestTimeoutMs: 1000 });
    const reply = call(bench, bench.join(), "own", { timeoutMs });
    const [request] = bench.heard();
    for (let tenths = 1; tenths < 20; tenths++) {
      vi.advanceTimersByTime(timeoutMs / 2);
      expect(reply.isFinished).toBe(false);
      bench.say({ method: "notifications/progress", params: { progressToken: request?.["id"], progress: tenths } });
    }
    vi.advanceTimersByTime(timeoutMs / 2);
    expect(reply.error?.details.timeoutMs).toBe(10 * timeoutMs);
  });

  it("a call waits for a slot for half of its own timeout, HOLD_TIMEOUT_MS at most", () => {
    const bench = LaneBench.ready({ requestTimeoutMs: 1000, holdTimeoutMs: 2000, maxInFlight: 1 });
    const session = bench.join();
    call(bench, session, "running", { timeoutMs: 60_000 });
    const reply = call(bench, session, "own", { timeoutMs });
    vi.advanceTimersByTime(Math.min(2000, timeoutMs / 2) - 1);
    expect(reply.isFinished).toBe(false);
    vi.advanceTimersByTime(1);
    expect([reply.error?.code, reply.error?.details.sent]).toEqual(["OVERLOADED", false]);
  });
});

/** A lane whose server is ready, and the limits of a tool that allows this many calls at a time. */
function limited(limit: number, limits: Partial<Config> = {}): { bench: LaneBench; terms: CallLimits; slots: Semaphore } {
  const bench = LaneBench.ready({ holdTimeoutMs: 500, maxHeldRequests: 100, ...limits });
  const slots = new Semaphore("tool export", limit);
  return { bench, slots, terms: { semaphore: slots } };
}

interface Heard {
  readonly id: unknown;
  readonly name: string;
}

function hear(bench: LaneBench): Heard[] {
  return bench.heard().flatMap(({ id, params }) => {
    const { name } = params as { readonly name?: string };
    return name === undefined ? [] : [{ id, name }];
  });
}

const names = (heard: readonly Heard[]): string[] => heard.map(({ name }) => name);

describe("calls beyond the concurrency of their tool", () => {
  it("queued calls are rejected after HOLD_TIMEOUT_MS with the limit of the tool", () => {
    const { bench, terms, slots } = limited(2);
    const session = bench.join();
    const calls = ["1", "2", "3", "4"].map((name) => call(bench, session, name, terms));
    vi.advanceTimersByTime(500);
    expect(outcomes(calls)).toEqual([undefined, undefined, "OVERLOADED", "OVERLOADED"]);
    const { message, details } = calls[2]?.error ?? {};
    expect(message).toBe(
      "The MCP server is overloaded: tool export has 2 in flight, 1 queued. The request was not sent; it is safe to retry.",
    );
    expect(details).toEqual({ sent: false, retrySafe: true, retryAfterSeconds: 1 });
    expect([slots.freeCount, slots.waitingCount]).toEqual([0, 0]);
  });

  it("a call that timed out before it could be sent takes no slot", () => {
    const { bench, slots } = limited(1);
    const reply = bench.request(bench.join(), { id: 1, method: "tools/call" }, true, Date.now() - 100, {
      timeoutMs: 100,
      semaphore: slots,
    });
    expect([reply.outcome, slots.isUnused, hear(bench)]).toEqual(["REQUEST_TIMEOUT", true, []]);
  });
});

describe("the slots of a tool across the exit of a server", () => {
  it("an unread call goes before the queued calls of other sessions", () => {
    const { bench, terms } = limited(1);
    bench.upstream.isReading = false;
    const [unread, queued] = [bench.join(), bench.join()];
    call(bench, unread, "unread", terms);
    call(bench, queued, "queued", terms);
    bench.lose();
    bench.upstream.isReading = true;
    bench.start();
    expect(names(hear(bench))).toEqual(["unread"]);
  });

  it("a request that is sent again gives its slot back and takes it again", () => {
    const { bench, terms, slots } = limited(1);
    const session = bench.join();
    // Its method is a read, but the lane looks only at the limits.
    const calls = ["1", "2"].map((name) =>
      bench.request(session, { id: name, method: "resources/read", params: { name } }, true, Date.now(), terms),
    );
    expect(names(hear(bench))).toEqual(["1"]);
    bench.lose();
    expect([slots.freeCount, slots.waitingCount]).toEqual([1, 2]);
    bench.start();
    const [again] = hear(bench);
    expect([again?.name, slots.freeCount, bench.counters.requests.repeated]).toEqual(["1", 0, 1]);
    bench.say({ id: again?.id, result: {} });
    expect([outcomes(calls), names(hear(bench))]).toEqual([[{}, undefined], ["2"]]);
  });
});
