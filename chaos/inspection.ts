// Compares the counters of all processes of the wrapper with those of the clients.

import type { Adapter } from "./adapters.ts";
import type { Ledger } from "./ledger.ts";
import { readMetrics } from "./metrics.ts";
import type { Fleet } from "./replicas/fleet.ts";
import type { RunResult } from "./results.ts";
import { discrepancies, leftovers, readStatus } from "./status.ts";
import type { Tally } from "./tally.ts";

export type Inspection = Pick<RunResult, "status" | "leftovers" | "counterDiscrepancies">;

/** Must be called when no request is in flight and all clients have left. */
export async function inspect(adapter: Adapter, fleet: Fleet, ledger: Ledger): Promise<Inspection> {
  if (fleet.all().length === 1) return inspectOne(adapter, fleet.first.origin, ledger);
  const all = await Promise.all(
    fleet.all().map(async ({ name, wrapper, tally }) => ({ name, inspection: await inspectOne(adapter, wrapper.origin, tally) })),
  );
  return {
    status: Object.fromEntries(all.map(({ name, inspection }) => [name, inspection.status])),
    leftovers: all.flatMap(({ name, inspection }) => inspection.leftovers.map((text) => `${name}: ${text}`)),
    counterDiscrepancies: all.flatMap(({ name, inspection }) => (inspection.counterDiscrepancies ?? []).map((text) => `${name}: ${text}`)),
  };
}

async function inspectOne(adapter: Adapter, origin: string, tally: Tally): Promise<Inspection> {
  const status = await readStatus(adapter, origin);
  const counterDiscrepancies = discrepancies(status, await readMetrics(adapter, origin), tally) ?? null;
  return { status, leftovers: leftovers(status), counterDiscrepancies };
}
