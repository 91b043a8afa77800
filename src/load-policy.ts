import type { Config } from "./config/load.ts";
import { POLICY_OPTIONS } from "./config/groups/policy-options.ts";
import type { Counters } from "./observability/counters.ts";
import type { Descriptor } from "./descriptor/descriptor.ts";
import type { Log } from "./observability/log.ts";
import type { Redact } from "./observability/redact.ts";
import type { ToolPolicy } from "./policy/tool-policy.ts";

export interface LoadPolicyOptions {
  readonly config: Config;
  /** The content of the file that DESCRIPTOR names; undefined if it is not set. */
  readonly descriptor: Descriptor | undefined;
  readonly counters: Counters;
  readonly log: Log;
  readonly redact: Redact;
  readonly nowMs: () => number;
}

/** Creates the tool policy if an option sets a rule. Its modules are loaded only then: most sidecars run without them. */
export async function loadPolicy({ config, descriptor, counters, log, redact, nowMs }: LoadPolicyOptions): Promise<ToolPolicy | undefined> {
  if (!hasRules(config)) return undefined;
  const [{ ToolPolicy }, { PinnedDescriptor }] = await Promise.all([
    import("./policy/tool-policy.ts"),
    import("./policy/tools/pinned-descriptor.ts"),
  ]);
  const { descriptor: file = "", descriptorMode: mode } = config;
  const pinned = descriptor === undefined ? undefined : new PinnedDescriptor({ descriptor, file, mode, log, redact, nowMs });
  const policy = new ToolPolicy({ settings: config, counters, log, pinned, nowMs });
  policy.start();
  return policy;
}

/** True if any policy option is on. `descriptorMode` does not count: it has no effect without a descriptor. */
function hasRules(config: Config): boolean {
  const keys = (Object.keys(POLICY_OPTIONS) as (keyof typeof POLICY_OPTIONS)[]).filter((key) => key !== "descriptorMode");
  return keys.some((key) => config[key] !== undefined && config[key] !== false && config[key] !== "off");
}
