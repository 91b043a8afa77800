import { describe, expect, it } from "vitest";
import { Counters, type RequestEnding } from "../../../../src/observability/counters.ts";
import { Defects } from "../../../../src/observability/defects.ts";
import type { Sample } from "../../../../src/observability/metrics/definitions.ts";
import { RequestMetrics } from "../../../../src/observability/metrics/request-metrics.ts";
import { ObservedRequest } from "../../../../src/observability/request-observer.ts";
import { RecordedLog } from "../../../support/recorded-log.ts";

const DURATION = "mcp_server_operation_duration_seconds";

/** Metrics at a time that the test sets. */
class Clocked {
  nowMs = 0;
  readonly counters = new Counters();
  readonly metrics = new RequestMetrics({
    nowMs: () => this.nowMs,
    defects: new Defects(new RecordedLog(), this.counters),
    redact: (text) => text.replaceAll("secret", "***"),
  });

  /** Ends a request. */
  end(
    facts: Partial<Pick<ObservedRequest, "method" | "tool" | "revision" | "sentAtMs">> & { readonly acceptedAtMs?: number },
    ending: RequestEnding = "results",
    body?: string,
  ): void {
    const { method = "tools/call", tool, acceptedAtMs = 0, revision, sentAtMs } = facts;
    const request = new ObservedRequest(this.metrics, { method, tool, principal: "p", acceptedAtMs, requestBytes: 1 });
    [request.revision, request.sentAtMs] = [revision, sentAtMs];
    this.metrics.ended(request, ending, body);
  }

  /** Makes a list of tools pass. */
  list(...names: readonly string[]): void {
    const tools = names.map((name) => ({ inputSchema: { name: "inner" }, name }));
    this.end({ method: "tools/list" }, "results", JSON.stringify({ id: 1, result: { tools } }));
  }

  samples(metric: string): Sample[] {
    return [...this.metrics.samples()].filter((sample) => sample.metric === metric);
  }

  /** Returns the values of a label in the durations. */
  labels(label: string): unknown[] {
    return this.samples(DURATION).map(({ labels }) => labels?.[label]);
  }
}

describe("the metrics of requests", () => {
  it("a duration is in the buckets above it, with its sum in seconds", () => {
    const clocked = new Clocked();
    clocked.nowMs = 150;
    clocked.end({ sentAtMs: 30 });
    const [{ value } = { value: 0 }] = clocked.samples(DURATION);
    expect(value).toEqual({ count: 1, sum: 0.15, cumulative: [0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1] });
    expect(clocked.samples("claw_mcp_stdio_request_queue_seconds")).toMatchObject([{ value: { count: 1, sum: 0.03 } }]);
    expect(clocked.samples("claw_mcp_stdio_request_server_seconds")).toMatchObject([{ value: { count: 1, sum: 0.12 } }]);
  });

  it.each([
    ["a bound counts as below it", 10, 14],
    ["a duration above the last bound is in no bucket", 300_001, 0],
  ])("%s", (_name, durationMs, buckets) => {
    const clocked = new Clocked();
    clocked.nowMs = durationMs;
    clocked.end({});
    const [{ value } = { value: 0 }] = clocked.samples(DURATION);
    expect(value).toMatchObject({ count: 1, cumulative: Array.from({ length: 14 }, (_, index) => Number(index >= 14 - buckets)) });
  });

  it("a request that was never sent was in the queue for its whole time", () => {
    const clocked = new Clocked();
    clocked.nowMs = 20;
    clocked.end({}, "OVERLOADED");
    expect(clocked.samples("claw_mcp_stdio_request_queue_seconds")).toMatchObject([{ value: { count: 1, sum: 0.02 } }]);
    expect(clocked.samples("claw_mcp_stdio_request_server_seconds")).toEqual([]);
  });

  it.each([
    ["results", '{"id":1,"result":{"content":[]}}', ""],
    ["results", '{"id":1,"result":{"isError":true}}', "tool_error"],
    ["results", '{"id":1,"result":{"isError": false}}', ""],
    ["results", '{"id":1,"result":{"content":[{"text":"\\"isError\\":true","isError":true}]}}', ""],
    ["errors", '{"id":1,"error":{"code":-32602,"message":"\\"code\\":1"}}', "-32602"],
    ["errors", '{"id":1,"error":{"code":12345}}', "_OTHER"],
    ["errors", '{"id":1,"error":"no object"}', "_OTHER"],
    ["errors", undefined, "_OTHER"],
    ["dismissed", undefined, "dismissed"],
    ["REQUEST_TIMEOUT", undefined, "REQUEST_TIMEOUT"],
  ] as const)("the end %s with the body %s has the type of error %j", (ending, body, type) => {
    const clocked = new Clocked();
    clocked.end({ tool: "a" }, ending, body);
    expect(clocked.labels("error_type")).toEqual([type]);
  });

  it("tools have their names from the first list on", () => {
    const clocked = new Clocked();
    clocked.end({ tool: "search" });
    clocked.list("search", "read");
    clocked.end({ tool: "search" });
    clocked.end({ tool: "inner" });
    expect(clocked.labels("gen_ai_tool_name")).toEqual(["other", "", "search"]);
  });

  it("all pages of a list are read, and lists without a new name only rarely", () => {
    const clocked = new Clocked();
    clocked.list("a");
    clocked.list("b");
    clocked.list("b");
    clocked.list("c");
    clocked.end({ tool: "c" });
    clocked.nowMs = 10_000;
    clocked.list("c");
    for (const tool of ["a", "b", "c"]) clocked.end({ tool });
    expect(clocked.labels("gen_ai_tool_name")).toEqual(["", "other", "a", "b", "c"]);
  });

  it("a page that is not the last one is followed at once, so it begins no pause", () => {
    const clocked = new Clocked();
    const page = (name: string): void =>
      clocked.end({ method: "tools/list" }, "results", `{"result":{"tools":[{"name":"${name}"}],"nextCursor":"2"}}`);
    page("a");
    page("a");
    clocked.list("b");
    clocked.end({ tool: "b" });
    expect(clocked.labels("gen_ai_tool_name")).toEqual(["", "b"]);
  });

  it("a name that is a secret is not shown", () => {
    const clocked = new Clocked();
    clocked.list("secret-of-the-server");
    clocked.end({ tool: "secret-of-the-server" });
    expect(clocked.labels("gen_ai_tool_name")).toEqual(["", "other"]);
  });

  it("names that are not well-formed are not used: two of them could be written alike", () => {
    const clocked = new Clocked();
    clocked.list("\ud800", "\ud801", "whole");
    for (const tool of ["\ud800", "\ud801", "whole"]) clocked.end({ tool });
    expect(clocked.labels("gen_ai_tool_name")).toEqual(["", "other", "whole"]);
  });

  it.each(["", "[]", "{}", '{"result":{"tools":{}}}', '{"result":{"tools":[1,null,{"name":2},{}]}}', '{"result":[{"name":"a"}]}'])(
    "the list %j has no names",
    (body) => {
      const clocked = new Clocked();
      clocked.end({ method: "tools/list" }, "results", body);
      clocked.end({ tool: "a" });
      expect(clocked.labels("gen_ai_tool_name")).toEqual(["", "other"]);
      expect(clocked.counters.defects).toBe(0);
    },
  );

  it("neither ten thousand tools nor a thousand revisions, nor hostile names, exceed the limit of series", () => {
    const clocked = new Clocked();
    const names = Array.from({ length: 10_000 }, (_, index) => `tool-${index}`);
    clocked.list(...names, '"', "\n", "x".repeat(10_000));
    const endings = ["results", "dismissed", "UPSTREAM_EXITED", "REQUEST_TIMEOUT", "RATE_LIMITED"] as const;
    for (const ending of endings) for (const tool of names) clocked.end({ tool, revision: "2025-11-25" }, ending);
    for (let index = 0; index < 1000; index++) clocked.end({ method: `m${index}`, revision: `2099-${index}` });
    const durations = clocked.samples(DURATION);
    expect(durations.length).toBeLessThanOrEqual(602);
    const failures = durations.filter(({ labels }) => labels?.["error_type"] !== "");
    const count = (samples: readonly Sample[]): number =>
      samples.reduce((sum, { value }) => sum + (typeof value === "number" ? 0 : value.count), 0);
    expect(count(durations)).toBe(1 + endings.length * names.length + 1000);
    expect(count(failures)).toBe((endings.length - 1) * names.length);
  });
});
