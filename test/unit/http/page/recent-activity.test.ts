import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { describe, expect, it } from "vitest";
import { RecentActivity } from "../../../../src/http/page/recent-activity.ts";
import { RecentLog } from "../../../../src/http/page/recent-log.ts";
import type { RequestEnding } from "../../../../src/observability/counters.ts";
import { ObservedRequest } from "../../../../src/observability/request-observer.ts";

function requestOf(activity: RecentActivity, method: string, tool?: string): ObservedRequest {
  return new ObservedRequest(activity, { method, tool, principal: "a", acceptedAtMs: 0, requestBytes: 1 });
}

function createActivity(): RecentActivity {
  return new RecentActivity(new RecentLog(), () => 7);
}

describe("the recent requests", () => {
  it.each<readonly [RequestEnding, string, string, number]>([
    ["results", '{"result":{}}', "results", 0],
    ["results", '{"result":{"content":[],"isError":true}}', "tool_error", 1],
    ["errors", '{"error":{}}', "errors", 1],
    ["dismissed", "", "dismissed", 0],
    ["unread", "", "unread", 0],
    ["REQUEST_TIMEOUT", "", "REQUEST_TIMEOUT", 1],
  ])("a request that ends with %s and %s is shown as %s, and counts as %i errors", (ending, body, shown, errors) => {
    const activity = createActivity();
    activity.ended(requestOf(activity, "tools/call", "echo"), ending, body);
    expect(activity.requests.after(0)).toMatchObject([{ method: "tools/call", tool: "echo", durationMs: 7, ending: shown }]);
    const { current } = activity.rate;
    expect(activity.rate.between(current, current + 1)).toMatchObject([{ requests: 1, errors }]);
  });

  it("a request that was rejected before it was read has its code only", () => {
    const activity = createActivity();
    activity.rejected({
      code: "UNAUTHORIZED",
      httpStatus: 401,
      reason: undefined,
      sender: () => ({ principal: "", sessionId: undefined, requestBytes: 0 }),
    });
    expect(activity.requests.after(0)).toMatchObject([{ method: null, tool: null, durationMs: null, ending: "UNAUTHORIZED" }]);
  });

  it("long names do not keep their requests in memory", () => {
    const activity = createActivity();
    setFlagsFromString("--expose-gc");
    const collectGarbage = runInNewContext("gc") as () => void;
    collectGarbage();
    const before = process.memoryUsage().heapUsed;
    for (let index = 0; index < 300; index++) {
      const body = `${index}${"x".repeat(1_000_000)}`;
      activity.ended(requestOf(activity, body.slice(0, 30), body.slice(0, 500_000)), "results", undefined);
    }
    expect(activity.requests.after(0)).toHaveLength(200);
    collectGarbage();
    expect(process.memoryUsage().heapUsed - before).toBeLessThan(20_000_000);
  });
});
