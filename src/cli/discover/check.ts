import type { Descriptor } from "../../descriptor/descriptor.ts";
import { describeDrift } from "../../descriptor/describe-drift.ts";
import { compareTools, type ToolDrift } from "../../descriptor/drift.ts";
import type { Listing } from "./listing.ts";
import type { DiscoverOptions } from "./options.ts";

export interface CheckResult {
  /** One for each difference: `+ NAME …` new, `- NAME …` missing, `~ NAME: …` changed. Empty if the tools match the descriptor. */
  readonly lines: readonly string[];
  /** The number of tools that differ. */
  readonly driftCount: number;
  /** Other differences from the descriptor. They are not drift, because only tools count. */
  readonly notes: readonly string[];
}

/** Compares a listing with the reviewed descriptor. */
export function checkListing(reviewed: Descriptor, { tools }: Listing, options: DiscoverOptions): CheckResult {
  const drifts = compareTools(reviewed.tools, tools);
  return {
    lines: drifts.flatMap((drift) => describeDrift([drift]).map((line) => `${sign(drift)} ${line}`)),
    driftCount: drifts.length,
    notes: findStaleRecords(reviewed, options).map((name) => `the ${name} differs from the one in the descriptor`),
  };
}

function sign({ kinds }: ToolDrift): string {
  return kinds.includes("new") ? "+" : kinds.includes("missing") ? "-" : "~";
}

/** Returns the records for which a pod takes the snapshot as stale. Values that are not given or not recorded are ignored. */
function findStaleRecords({ "x-claw-discovery": recorded = {} }: Descriptor, { command, args, image }: DiscoverOptions): string[] {
  const isStale = (member: string, current: unknown): boolean =>
    recorded[member] !== undefined && JSON.stringify(recorded[member]) !== JSON.stringify(current);
  const stale: string[] = [];
  if (command !== "" && isStale("command", command)) stale.push("command");
  if (command !== "" && isStale("args", args)) stale.push("list of arguments");
  if (image !== undefined && isStale("wrapper_image", image)) stale.push("wrapper image");
  return stale;
}
