import type { Config } from "./config/load.ts";
import { POLICY_OPTIONS } from "./config/policy-options.ts";
import type { Counters } from "./counters.ts";
import type { Descriptor } from "./descriptor/descriptor.ts";
import { Lane, type LaneOptions } from "./mux/lane.ts";
import type { LaneEntry } from "./mux/lanes.ts";
import type { Log } from "./observability/log.ts";
import type { Redact } from "./observability/redact.ts";

export interface LaneEntriesOptions {
  readonly config: Config;
  /** What DESCRIPTOR names, where it is set. */
  readonly descriptor: Descriptor | undefined;
  readonly counters: Counters;
  readonly log: Log;
  readonly redact: Redact;
  readonly nowMs: () => number;
}

/** Makes lanes, with the way into them. */
export interface LaneEntries {
  /** @param name of a private one, as the log has it. */
  create(options: Omit<LaneOptions, "toolWatcher">, name?: string): LaneEntry;
  /** For `/status`; undefined where there is nothing to tell. */
  readonly status: () => object | undefined;
}

/** Lanes that clients enter through the tool policy, where there is one. What that takes is loaded only then: most sidecars start without it. */
export async function createLaneEntries(options: LaneEntriesOptions): Promise<LaneEntries> {
  const { config, descriptor, counters, log, redact, nowMs } = options;
  if (!hasToolPolicy(config)) return OPEN;
  const [{ ToolPolicy }, { PinnedDescriptor }] = await Promise.all([
    import("./policy/tool-policy.ts"),
    import("./policy/pinned-descriptor.ts"),
  ]);
  const { descriptor: file = "", descriptorMode: mode } = config;
  const pinned = descriptor === undefined ? undefined : new PinnedDescriptor({ descriptor, file, mode, log, redact, nowMs });
  const policy = new ToolPolicy({ settings: config, counters, log, pinned, nowMs });
  policy.start();
  return {
    create: (laneOptions, name) => policy.createLane(laneOptions, name),
    status: () => (pinned === undefined ? undefined : { descriptor: pinned.status }),
  };
}

const OPEN: LaneEntries = {
  create(options) {
    const lane = new Lane(options);
    return { lane, entry: lane };
  },
  status: () => undefined,
};

/** Whether any rule is on. A mode without what it is the mode of is none. */
function hasToolPolicy(config: Config): boolean {
  const keys = (Object.keys(POLICY_OPTIONS) as (keyof typeof POLICY_OPTIONS)[]).filter((key) => key !== "descriptorMode");
  return keys.some((key) => config[key] !== undefined && config[key] !== false && config[key] !== "off");
}
