import { describe, expect, it } from "vitest";
import { SidecarError } from "../../../src/errors.ts";
import { Counters } from "../../../src/observability/counters.ts";
import { createCallRates } from "../../../src/policy/call-rates.ts";
import { LaneRules, type LaneRulesOptions } from "../../../src/policy/lane-rules.ts";
import { createToolLimits } from "../../../src/policy/tool-limits.ts";
import { RecordedLog } from "../../support/recorded-log.ts";
import { useFakeClock } from "../../support/fake-clock.ts";
import { LaneBench } from "../../server/support/lane-bench.ts";
import { RecordedExchange } from "../../server/support/recorded-exchange.ts";
import { StatelessCaller } from "../../server/support/stateless-caller.ts";

/** A check of arguments that rejects each call. */
const alwaysWrong: LaneRulesOptions["argumentCheck"] = {
  check(_call, onProblems) {
    onProblems(["wrong"]);
    return () => undefined;
  },
};

const search = [{ pattern: "search", value: 1 }];

/** Every rule that depends on the tool's name. */
const RULES: Readonly<Record<string, Partial<LaneRulesOptions>>> = {
  TOOL_CALLS_PER_MINUTE: { rates: createCallRates({ sessionCallsPerMinute: undefined, toolCallsPerMinute: search, nowMs: () => 0 }) },
  TOOL_CONCURRENCY: { limitsOf: createToolLimits({ toolConcurrency: search, toolTimeoutsMs: undefined })?.() },
  ARGUMENT_CHECK: { argumentCheck: alwaysWrong, argumentCheckMode: "enforce" },
};

useFakeClock();

describe("a lane with rules", () => {
  it("lines about wrong arguments are limited", () => {
    const log = new RecordedLog();
    const policy = new LaneRules({ argumentCheck: alwaysWrong, argumentCheckMode: "warn", counters: new Counters(), log, nowMs: () => 0 });
    const bench = LaneBench.shared({}, { policy });
    const session = bench.join();
    bench.start({ tools: {} });
    bench.reply("tools/list", { result: { tools: [{ name: "search", inputSchema: { type: "object" } }] } });
    for (let id = 1; id <= 150; id++) bench.request(session, { id, method: "tools/call", params: { name: "search", arguments: {} } });
    expect(log.messages.filter((message) => message === "arguments violate the schema")).toHaveLength(100);
  });

  it("a call with wrong arguments is counted and logged once, however often it is checked", () => {
    const counters = new Counters();
    const log = new RecordedLog();
    const policy = new LaneRules({ argumentCheck: alwaysWrong, argumentCheckMode: "warn", counters, log, nowMs: () => 0 });
    const bench = LaneBench.shared({}, { policy });
    const result = { tools: [{ name: "search", inputSchema: { type: "object" } }] };
    const session = bench.join();
    for (const id of [1, 2, 3]) {
      bench.request(session, { id, method: "tools/call", params: { name: "search", arguments: {} } });
    }
    for (let times = 0; times < 5; times++) {
      bench.start({ tools: {} });
      bench.upstream.isReading = false;
      bench.reply("tools/list", { result });
      bench.lose();
      bench.upstream.isReading = true;
    }
    bench.start({ tools: {} });
    bench.reply("tools/list", { result });
    expect(bench.heard().filter(({ method }) => method === "tools/call")).toHaveLength(3);
    expect([counters.policy.invalidArguments, log.messages.length]).toEqual([3, 3]);
  });

  it("a request that the lane rejects does not count towards its rate", () => {
    const rates = createCallRates({ sessionCallsPerMinute: 1, toolCallsPerMinute: undefined, nowMs: () => 0 });
    const policy = new LaneRules({ rates, argumentCheckMode: "off", counters: new Counters(), log: new RecordedLog(), nowMs: () => 0 });
    const bench = LaneBench.ready({ maxSessionRequests: 1 }, { policy });
    const session = bench.join();
    const waiting = bench.request(session, { id: 1, method: "x/slow" });
    const call = { id: 2, method: "tools/call", params: { name: "search" } };
    expect(bench.request(session, call).outcome).toBe("SESSION_OVERLOADED");
    bench.reply("x/slow");
    expect([waiting.outcome, bench.request(session, call).outcome]).toEqual([{}, undefined]);
    expect(bench.request(session, { ...call, id: 3 }).outcome).toBe("SESSION_OVERLOADED");
  });

  it("a request of a batch that is rejected with the others keeps to its share", () => {
    const resultLimit = { maxBytes: 4096, keepAliveMs: 1000, nowMs: Date.now, onTruncated: () => undefined };
    const policy = new LaneRules({
      resultLimit,
      argumentCheckMode: "off",
      counters: new Counters(),
      log: new RecordedLog(),
      nowMs: () => 0,
    });
    const { lane } = LaneBench.shared({}, { policy });
    const client = new RecordedExchange("1", Date.now());
    client.sharedBy = 20;
    lane.refuse(client, new SidecarError("OVERLOADED", "m".repeat(500)));
    expect(client.error?.message).toMatch(/^m{40,100}$|^OVERLOADED$/);
  });

  it("the rate of calls holds for a client without a session", () => {
    const rates = createCallRates({ sessionCallsPerMinute: 1, toolCallsPerMinute: undefined, nowMs: Date.now });
    const policy = new LaneRules({ rates, argumentCheckMode: "off", counters: new Counters(), log: new RecordedLog(), nowMs: () => 0 });
    const bench = LaneBench.ready({}, { policy });
    const [one, other] = [new StatelessCaller("a"), new StatelessCaller("b")];
    const calls = [one, one, other].map((caller) => bench.request(caller, { method: "tools/call", params: { name: "x" } }));
    expect(calls.map(({ outcome }) => outcome)).toEqual([undefined, "RATE_LIMITED", undefined]);
  });
});

describe.each(Object.entries(RULES))("a call under %s", (_name, rule) => {
  it.each([["a list", ["search"]] as const, ["nothing", undefined] as const])(
    "a call whose name is %s does not reach the server",
    (_what, name) => {
      const policy = new LaneRules({ argumentCheckMode: "off", ...rule, counters: new Counters(), log: new RecordedLog(), nowMs: () => 0 });
      const bench = LaneBench.shared({}, { policy });
      bench.start({ tools: {} });
      if (policy.needsTools) bench.reply("tools/list", { result: { tools: [{ name: "search", inputSchema: { type: "object" } }] } });
      const exchange = bench.request(bench.join(), { method: "tools/call", params: { name, arguments: {} } });
      expect([exchange.outcome, bench.heard()]).toEqual(["TOOL_NOT_FOUND", []]);
    },
  );
});
