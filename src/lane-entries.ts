import type { Config } from "./config/load.ts";
import { POLICY_OPTIONS } from "./config/policy-options.ts";
import type { Counters } from "./observability/counters.ts";
import type { Descriptor } from "./descriptor/descriptor.ts";
import { Lane, type LaneOptions } from "./lane/lane.ts";
import type { LaneEntry } from "./lane/lanes.ts";
import type { Log } from "./observability/log.ts";
import type { Redact } from "./observability/redact.ts";

export interface LaneEntriesOptions {
  readonly config: Config;
  /** The content of the file that DESCRIPTOR names; undefined if it is not set. */
  readonly descriptor: Descriptor | undefined;
  readonly counters: Counters;
  readonly log: Log;
  readonly redact: Redact;
  readonly nowMs: () => number;
}

/** Creates lanes and their entries. */
export interface LaneEntries {
  /** @param name the name of a private lane in the log. */
  create(options: Omit<LaneOptions, "toolWatcher">, name?: string): LaneEntry;
  /** Returns the fields for `/status`; undefined if there are none. */
  readonly status: () => object | undefined;
}

/** Lanes behind the tool policy, if there is one. The policy's modules are loaded only then: most sidecars run without them. */
export async function createLaneEntries(options: LaneEntriesOptions): Promise<LaneEntries> {
  const { config, descriptor, counters, log, redact, nowMs } = options;
  if (!hasToolPolicy(config)) return OPEN;
  const [{ ToolPolicy }, { PinnedDescriptor }] = await Promise.all([
    import("./policy/tool-policy.ts"),
    import("./policy/tools/pinned-descriptor.ts"),
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

/** True if any policy option is on. `descriptorMode` does not count: it has no effect without a descriptor. */
function hasToolPolicy(config: Config): boolean {
  const keys = (Object.keys(POLICY_OPTIONS) as (keyof typeof POLICY_OPTIONS)[]).filter((key) => key !== "descriptorMode");
  return keys.some((key) => config[key] !== undefined && config[key] !== false && config[key] !== "off");
}
