import { Defects } from "../observability/defects.ts";
import type { ArgumentCheckMode } from "./check-mode.ts";
import type { Counters } from "../observability/counters.ts";
import { Lane, type LaneOptions } from "../lane/lane.ts";
import type { LaneEntry } from "../lane/lanes.ts";
import type { Log } from "../observability/log.ts";
import { ArgumentCheck } from "./arguments/argument-check.ts";
import { type CallRatesSettings, createCallRates } from "./call-rates.ts";
import type { CallRules } from "./call-rules.ts";
import { GuardedLane } from "./guarded-lane.ts";
import { invalidArgumentsResult } from "./arguments/invalid-arguments.ts";
import { LaneTools } from "./lane-tools.ts";
import { LimitedExchange } from "./result-limit/limited-exchange.ts";
import type { PinnedDescriptor } from "./tools/pinned-descriptor.ts";
import { createToolFilter, visibleNames } from "./tools/tool-filter.ts";
import { createToolLimits, type ToolLimitsSettings } from "./tool-limits.ts";

interface ToolPolicySettings extends CallRatesSettings, ToolLimitsSettings {
  readonly allowTools: readonly string[] | undefined;
  readonly denyTools: readonly string[] | undefined;
  readonly readOnly: boolean;
  readonly argumentCheck: ArgumentCheckMode;
  readonly maxResultBytes: number | undefined;
  readonly keepAliveMs: number;
}

export interface ToolPolicyOptions {
  readonly settings: ToolPolicySettings;
  readonly counters: Counters;
  readonly log: Log;
  /** Undefined if no descriptor is pinned. */
  readonly pinned: PinnedDescriptor | undefined;
  /** Reads a monotonic clock. */
  readonly nowMs: () => number;
}

/** The operator's rules about tools, for all lanes: visible tools, their arguments, rates, limits, and the size of results. */
export class ToolPolicy {
  readonly #options: ToolPolicyOptions;
  readonly #filter: CallRules["filter"];
  readonly #rates: CallRules["rates"];
  readonly #argumentCheck: ArgumentCheck | undefined;
  readonly #createLimitsOf: ReturnType<typeof createToolLimits>;

  constructor(options: ToolPolicyOptions) {
    this.#options = options;
    const { settings, counters, log, pinned, nowMs } = options;
    const isPinned = pinned?.mode === "enforce" ? pinned.isPinned.bind(pinned) : undefined;
    this.#filter = createToolFilter({ ...settings, isPinned });
    this.#rates = createCallRates({ ...settings, nowMs });
    this.#argumentCheck =
      settings.argumentCheck === "off"
        ? undefined
        : new ArgumentCheck({ log, defects: new Defects(log, counters), onGivenUp: () => void counters.policy.argumentChecksGivenUp++ });
    this.#createLimitsOf = createToolLimits(settings);
  }

  /** Starts the argument check, which takes some time. */
  start(): void {
    this.#argumentCheck?.start();
  }

  /**
   * Creates a lane, behind the rules if there are any.
   *
   * @param name the name of a private lane in the log.
   */
  createLane(options: Omit<LaneOptions, "toolWatcher">, name?: string): LaneEntry {
    const rules = this.#rules(name);
    if (Object.values(rules).every((rule) => rule === undefined)) {
      const lane = new Lane(options);
      return { lane, entry: lane };
    }
    const { filter, argumentCheck, onTools } = rules;
    const tools = new LaneTools({ rules, counters: this.#options.counters, log: options.log });
    const hasToKnow = filter !== undefined || argumentCheck !== undefined || onTools !== undefined;
    const lane = new Lane({ ...options, ...(hasToKnow ? { toolWatcher: tools } : {}) });
    return { lane, entry: new GuardedLane(lane, rules, tools), visibleNames: (listed) => visibleNames(listed, filter) };
  }

  #rules(lane: string | undefined): CallRules {
    const { pinned } = this.#options;
    return {
      filter: this.#filter,
      rates: this.#rates,
      argumentCheck: this.#argumentRule(),
      limitsOf: this.#createLimitsOf?.(),
      limitResult: this.#resultLimit(),
      onTools:
        pinned === undefined
          ? undefined
          : (tools, generation) => pinned.onTools(tools, lane === undefined ? { generation } : { lane, generation }),
    };
  }

  #argumentRule(): CallRules["argumentCheck"] {
    const check = this.#argumentCheck;
    const { argumentCheck: mode } = this.#options.settings;
    if (check === undefined || mode === "off") return undefined;
    return { mode, check: (call, onProblems) => check.check(call, onProblems), describe: invalidArgumentsResult };
  }

  #resultLimit(): CallRules["limitResult"] {
    const { settings, counters, nowMs } = this.#options;
    const { maxResultBytes: maxBytes, keepAliveMs } = settings;
    if (maxBytes === undefined) return undefined;
    const limit = { maxBytes, keepAliveMs, nowMs, onTruncated: () => void counters.policy.truncatedResults++ };
    return (exchange) => new LimitedExchange(exchange, limit);
  }
}
