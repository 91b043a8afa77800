import { describe, expect, it } from "vitest";
import { Counters } from "../../../src/observability/counters.ts";
import type { CheckedCall } from "../../../src/policy/arguments/argument-check.ts";
import type { CallRules } from "../../../src/policy/call-rules.ts";
import { createCallRates } from "../../../src/policy/call-rates.ts";
import { LimitedExchange } from "../../../src/policy/result-limit/limited-exchange.ts";
import { SidecarError } from "../../../src/errors.ts";
import { GuardedLane } from "../../../src/policy/guarded-lane.ts";
import { LaneTools } from "../../../src/policy/lane-tools.ts";
import { createToolLimits } from "../../../src/policy/tool-limits.ts";
import { RecordedLog } from "../../support/recorded-log.ts";
import { useFakeClock } from "../support/fake-clock.ts";
import { LaneBench, requestOfClient } from "../support/lane-bench.ts";
import { RecordedExchange } from "../support/recorded-exchange.ts";

const NO_RULES: CallRules = {
  filter: undefined,
  rates: undefined,
  argumentCheck: undefined,
  limitsOf: undefined,
  limitResult: undefined,
  onTools: undefined,
};
/** A check of arguments that rejects each call. */
function alwaysWrong(_call: CheckedCall, onProblems: (problems: readonly string[]) => void): () => void {
  onProblems(["wrong"]);
  return () => undefined;
}

const search = [{ pattern: "search", value: 1 }];

/** Every rule that depends on the tool's name. */
const RULES: Readonly<Record<string, Partial<CallRules>>> = {
  TOOL_CALLS_PER_MINUTE: { rates: createCallRates({ sessionCallsPerMinute: undefined, toolCallsPerMinute: search, nowMs: () => 0 }) },
  TOOL_CONCURRENCY: { limitsOf: createToolLimits({ toolConcurrency: search, toolTimeoutsMs: undefined })?.() },
  ARGUMENT_CHECK: { argumentCheck: { mode: "enforce", check: alwaysWrong, describe: () => "{}" } },
};

useFakeClock();

describe("a guarded lane", () => {
  it("a call with wrong arguments is counted and logged once, however often it is checked", () => {
    const counters = new Counters();
    const log = new RecordedLog();
    const rules: CallRules = { ...NO_RULES, argumentCheck: { mode: "warn", check: alwaysWrong, describe: () => "{}" } };
    const toolWatcher = new LaneTools({ rules, counters, log });
    const bench = LaneBench.shared({}, { toolWatcher });
    const guarded = new GuardedLane(bench.lane, rules, toolWatcher);
    const result = { tools: [{ name: "search", inputSchema: { type: "object" } }] };
    const session = bench.join();
    for (const id of [1, 2, 3]) {
      const request = requestOfClient({ id, method: "tools/call", params: { name: "search", arguments: {} } });
      guarded.request(session, new RecordedExchange(String(id), Date.now()), request);
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

  it("a request of a batch that is rejected with the others keeps to its share", () => {
    const limit = { maxBytes: 4096, keepAliveMs: 1000, nowMs: Date.now, onTruncated: () => undefined };
    const rules: CallRules = { ...NO_RULES, limitResult: (exchange) => new LimitedExchange(exchange, limit) };
    const bench = LaneBench.ready();
    const guarded = new GuardedLane(bench.lane, rules, new LaneTools({ rules, counters: new Counters(), log: new RecordedLog() }));
    const client = new RecordedExchange("1", Date.now());
    client.sharedBy = 20;
    guarded.refuse(client, new SidecarError("OVERLOADED", "m".repeat(500)));
    expect(client.error?.message).toMatch(/^m{40,100}$|^OVERLOADED$/);
  });
});

describe.each(Object.entries(RULES))("a call under %s", (_name, rule) => {
  it.each([["a list", ["search"]] as const, ["nothing", undefined] as const])(
    "a call whose name is %s does not reach the server",
    (_what, name) => {
      const rules = { ...NO_RULES, ...rule };
      const toolWatcher = new LaneTools({ rules, counters: new Counters(), log: new RecordedLog() });
      const bench = LaneBench.shared({}, { toolWatcher });
      const guarded = new GuardedLane(bench.lane, rules, toolWatcher);
      bench.start({ tools: {} });
      bench.reply("tools/list", { result: { tools: [{ name: "search", inputSchema: { type: "object" } }] } });
      const exchange = new RecordedExchange("1", 0);
      const request = requestOfClient({ id: 1, method: "tools/call", params: { name, arguments: {} } });
      guarded.request(bench.join(), exchange, request);
      expect([exchange.outcome, bench.heard()]).toEqual(["TOOL_NOT_FOUND", []]);
    },
  );
});
