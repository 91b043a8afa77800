import { describe, expect, it, vi } from "vitest";
import { RequestLog } from "../../../src/http/request-log/request-log.ts";
import type { RequestEnding } from "../../../src/observability/counters.ts";
import { ObservedRequest, type RejectedRequest } from "../../../src/observability/request-observer.ts";
import { RecordedLog } from "../../support/recorded-log.ts";
import { UNGUARDED } from "../../support/defects.ts";
import { useFakeClock } from "../../support/fake-clock.ts";

useFakeClock();

const FACTS = { method: "tools/call", tool: "echo", principal: "token-1", acceptedAtMs: 0, requestBytes: 10 };
const SUPPRESSED = "request lines suppressed: too many";

class Bench {
  readonly log = new RecordedLog();
  readonly requests: RequestLog;

  constructor(mode: "errors" | "all") {
    this.requests = new RequestLog({ mode, log: this.log, defects: UNGUARDED, nowMs: Date.now });
  }

  end(ending: RequestEnding, times = 1): void {
    for (let count = 0; count < times; count++) this.requests.ended(new ObservedRequest(this.requests, FACTS), ending, undefined);
  }

  reject(
    times: number,
    sender: RejectedRequest["sender"] = () => ({ principal: "a", sessionId: undefined, requestBytes: undefined }),
  ): void {
    for (let count = 0; count < times; count++)
      this.requests.rejected({ code: "UNAUTHORIZED", httpStatus: 401, reason: "no token", sender });
  }

  count(message: string): number {
    return this.log.messages.filter((each) => each === message).length;
  }

  get suppressed(): unknown[] {
    return this.log.lines.filter(({ message }) => message === SUPPRESSED).map(({ fields }) => fields.count);
  }
}

describe("the log of requests", () => {
  it.each<[RequestEnding, "info" | "warn" | undefined]>([
    ["results", undefined],
    ["dismissed", undefined],
    ["unread", undefined],
    ["errors", "info"],
    ["RATE_LIMITED", "info"],
    ["TOOL_NOT_FOUND", "info"],
    ["SHUTTING_DOWN", "info"],
    ["REQUEST_TIMEOUT", "warn"],
    ["UPSTREAM_EXITED", "warn"],
    ["UPSTREAM_NOT_READY", "warn"],
    ["INTERNAL_ERROR", "warn"],
  ])("in the mode for errors, a request that ends with %s is logged at %s", (ending, level) => {
    const bench = new Bench("errors");
    bench.end(ending);
    expect(bench.log.lines.map((line) => line.level)).toEqual(level === undefined ? [] : [level]);
  });

  it("in the mode for all, each request is logged, however it ends", () => {
    const bench = new Bench("all");
    for (const ending of ["results", "dismissed", "unread", "errors"] as const) bench.end(ending);
    expect(bench.log.lines.map(({ fields }) => fields.ending)).toEqual(["results", "dismissed", "unread", "errors"]);
  });

  it("a request is logged once, with the way in which it ended first", () => {
    const bench = new Bench("all");
    const request = new ObservedRequest(bench.requests, FACTS);
    request.onUnanswered(undefined, "unread");
    request.onResponse(200, '{"jsonrpc":"2.0","id":1,"result":{}}', undefined);
    expect(bench.log.lines.map(({ fields }) => fields.ending)).toEqual(["unread"]);
  });

  it("times in queue and server are those of the first time that it was sent", () => {
    const bench = new Bench("all");
    const request = new ObservedRequest(bench.requests, FACTS);
    vi.setSystemTime(70);
    request.onSent(20);
    request.onSent(50);
    request.onResponse(200, '{"jsonrpc":"2.0","id":1,"error":{}}', undefined);
    expect(bench.log.lines).toMatchObject([{ fields: { ending: "errors", queueMs: 20, serverMs: 50, responseBytes: 35 } }]);
  });

  it("a request that was not sent has no time in the server", () => {
    const bench = new Bench("all");
    vi.setSystemTime(5);
    bench.end("OVERLOADED");
    expect(bench.log.lines[0]?.fields).toMatchObject({ queueMs: 5, serverMs: undefined });
  });

  it("a result with a member that is named like an error is a result", () => {
    const bench = new Bench("all");
    new ObservedRequest(bench.requests, FACTS).onResponse(200, '{"jsonrpc":"2.0","id":1,"result":{"error":{}}}', undefined);
    expect(bench.log.lines[0]?.fields.ending).toBe("results");
  });
});

describe("a flood of requests", () => {
  it("lines above the limit are counted, and reported ten seconds later", () => {
    const bench = new Bench("errors");
    bench.reject(100);
    expect([bench.count("request rejected"), bench.suppressed]).toEqual([60, []]);
    vi.advanceTimersByTime(10_000);
    expect(bench.suppressed).toEqual([40]);
    vi.advanceTimersByTime(60_000);
    expect(bench.suppressed).toEqual([40]);
  });

  it("lines go on evenly while it lasts", () => {
    const bench = new Bench("errors");
    bench.reject(60);
    for (let second = 0; second < 30; second++) {
      vi.advanceTimersByTime(1000);
      bench.reject(10);
    }
    expect(bench.count("request rejected")).toBe(90);
  });

  it("rejected requests, failures and other errors do not suppress each other", () => {
    const bench = new Bench("errors");
    bench.reject(1000);
    bench.end("errors", 1000);
    bench.end("UPSTREAM_EXITED", 300);
    expect(bench.log.lines.filter(({ level }) => level === "warn")).toHaveLength(300);
    expect(bench.count("request rejected")).toBe(60);
  });

  it("a suppressed line costs no look at its sender", () => {
    const sender = vi.fn<RejectedRequest["sender"]>(() => ({ principal: "a", sessionId: "b", requestBytes: 1 }));
    new Bench("errors").reject(1000, sender);
    expect(sender).toHaveBeenCalledTimes(60);
  });

  it("suppressed lines are reported at the end, and no timer is left", () => {
    const bench = new Bench("errors");
    bench.reject(61);
    bench.requests.close();
    expect([bench.suppressed, vi.getTimerCount()]).toEqual([[1], 0]);
  });

  it("a flood without tokens does not hide failures, and a flood of failures is reported as a warning", () => {
    const bench = new Bench("errors");
    bench.reject(100);
    const failed = { code: "UPSTREAM_NOT_READY", httpStatus: 503, reason: undefined } as const;
    const sender = (): ReturnType<RejectedRequest["sender"]> => ({ principal: "a", sessionId: undefined, requestBytes: undefined });
    bench.requests.rejected({ ...failed, sender });
    expect(bench.log.lines.at(-1)).toMatchObject({ level: "warn", fields: { ending: "UPSTREAM_NOT_READY" } });
    vi.advanceTimersByTime(10_000);
    expect(bench.log.lines.at(-1)).toMatchObject({ level: "info", message: SUPPRESSED, fields: { count: 40 } });
    for (let count = 0; count < 400; count++) bench.requests.rejected({ ...failed, sender });
    vi.advanceTimersByTime(10_000);
    expect(bench.log.lines.at(-1)).toMatchObject({ level: "warn", message: SUPPRESSED });
  });
});
