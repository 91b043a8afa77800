import type { Descriptor } from "../descriptor/descriptor.ts";
import { describeDrift } from "../descriptor/describe-drift.ts";
import { compareTools, type ToolDrift } from "../descriptor/drift.ts";
import type { Listing } from "./discover-listing.ts";
import type { DiscoverOptions } from "./discover-options.ts";

export interface CheckResult {
  /** One for each difference: `+ NAME …` new, `- NAME …` missing, `~ NAME: …` changed. Empty: the tools are those of the descriptor. */
  readonly lines: readonly string[];
  /** How many tools differ. */
  readonly driftCount: number;
  /** What else is not as recorded; no drift, since the tools decide. */
  readonly notes: readonly string[];
}

/** Compares a listing with the descriptor that was reviewed. */
export function checkListing(reviewed: Descriptor, { tools }: Listing, options: DiscoverOptions): CheckResult {
  const drifts = compareTools(reviewed.tools, tools);
  return {
    lines: drifts.flatMap((drift) => describeDrift([drift]).map((line) => `${sign(drift)} ${line}`)),
    driftCount: drifts.length,
    notes: findStaleRecords(reviewed, options).map((name) => `the ${name} is not the one that the descriptor records`),
  };
}

function sign({ kinds }: ToolDrift): string {
  return kinds.includes("new") ? "+" : kinds.includes("missing") ? "-" : "~";
}

/** What a pod would call a stale snapshot for. What was not said, or not recorded, says nothing. */
function findStaleRecords({ "x-claw-discovery": recorded = {} }: Descriptor, { command, args, image }: DiscoverOptions): string[] {
  const isStale = (member: string, current: unknown): boolean =>
    recorded[member] !== undefined && JSON.stringify(recorded[member]) !== JSON.stringify(current);
  const stale: string[] = [];
  if (command !== "" && isStale("command", command)) stale.push("command");
  if (command !== "" && isStale("args", args)) stale.push("list of arguments");
  if (image !== undefined && isStale("wrapper_image", image)) stale.push("wrapper image");
  return stale;
}
