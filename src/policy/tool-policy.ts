import { Defects } from "../observability/defects.ts";
import type { ArgumentCheckMode } from "./check-mode.ts";
import type { Counters } from "../observability/counters.ts";
import type { LanePolicy } from "../lane/lane-policy.ts";
import type { Log } from "../observability/log.ts";
import type { JsonObject } from "../protocol/message.ts";
import { ArgumentCheck } from "./arguments/argument-check.ts";
import { type CallRatesSettings, createCallRates } from "./call-rates.ts";
import { LaneRules, type LaneRulesOptions } from "./lane-rules.ts";
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
  readonly #pinned: PinnedDescriptor | undefined;
  readonly #argumentCheck: ArgumentCheck | undefined;
  /** The rules that all lanes share. */
  readonly #rules: Omit<LaneRulesOptions, "log">;
  readonly #createLimitsOf: ReturnType<typeof createToolLimits>;

  constructor({ settings, counters, log, pinned, nowMs }: ToolPolicyOptions) {
    const { argumentCheck: argumentCheckMode, maxResultBytes: maxBytes, keepAliveMs } = settings;
    const isPinned = pinned?.mode === "enforce" ? pinned.isPinned.bind(pinned) : undefined;
    const onGivenUp = (): void => void counters.policy.argumentChecksGivenUp++;
    const onTruncated = (): void => void counters.policy.truncatedResults++;
    this.#pinned = pinned;
    this.#argumentCheck =
      argumentCheckMode === "off" ? undefined : new ArgumentCheck({ log, defects: new Defects(log, counters), onGivenUp, nowMs });
    this.#createLimitsOf = createToolLimits(settings);
    this.#rules = {
      filter: createToolFilter({ ...settings, isPinned }),
      rates: createCallRates({ ...settings, nowMs }),
      argumentCheck: this.#argumentCheck,
      argumentCheckMode,
      resultLimit: maxBytes === undefined ? undefined : { maxBytes, keepAliveMs, nowMs, onTruncated },
      counters,
      nowMs,
    };
  }

  /** Starts the argument check, which takes some time. */
  start(): void {
    this.#argumentCheck?.start();
  }

  /** Creates the policy of one lane. @param lane the name of a private lane in the log. */
  forLane(log: Log, lane?: string): LanePolicy {
    const pinned = this.#pinned;
    const fields = lane === undefined ? {} : { lane };
    const onListed = (tools: readonly JsonObject[], generation: number): void => pinned?.onTools(tools, { ...fields, generation });
    return new LaneRules({
      ...this.#rules,
      limitsOf: this.#createLimitsOf?.(),
      onListed: pinned === undefined ? undefined : onListed,
      log,
    });
  }

  /** Returns the names of the listed tools that clients can see. */
  visibleNames(tools: readonly JsonObject[]): ReadonlySet<string> {
    return visibleNames(tools, this.#rules.filter);
  }

  /** The fields for `/status`; undefined if there are none. */
  get status(): object | undefined {
    return this.#pinned === undefined ? undefined : { descriptor: this.#pinned.status };
  }
}
