// Compares the wrapper's own counters with those of its clients.

import type { Series } from "../test/support/series.ts";
import { type Check, checkMetrics } from "./metrics.ts";
import type { Adapter } from "./adapters.ts";
import type { Tally } from "./tally.ts";

/** The used part of `/status` (docs/operations/status.md). */
interface Status {
  readonly sessions?: number;
  readonly openStreams?: number;
  readonly stateless?: {
    readonly subscriptions: number;
    readonly asks?: { readonly parked: { readonly now: number; readonly expired: number } };
  };
  readonly memory?: Readonly<Record<string, number>>;
  readonly counters?: {
    readonly requests: { readonly accepted: number; readonly refused?: Counts };
    readonly answers: { readonly [kind: string]: number | Counts };
  };
}

const CLIENT_MEMORY = ["bodies", "requests", "replay", "unread", "subscriptions"];

type Counts = Readonly<Record<string, number>>;

/** @returns the counters; undefined if the wrapper has none. */
export async function readStatus({ statusPath, token }: Adapter, origin: string): Promise<Status | undefined> {
  if (statusPath === undefined) return undefined;
  const response = await fetch(new URL(statusPath, origin), token === undefined ? {} : { headers: { Authorization: `Bearer ${token}` } });
  return response.ok ? ((await response.json()) as Status) : undefined;
}

/**
 * Must be called when no request is in flight and all clients have left.
 *
 * @returns the uses of memory and connections that are not zero, with their amounts.
 */
export function leftovers(status: Status | undefined): string[] {
  if (status === undefined) return [];
  const { sessions, openStreams, stateless, memory = {} } = status;
  // Running servers have buffers for their output.
  const ofClients = Object.fromEntries(CLIENT_MEMORY.map((kind) => [`${kind} in memory`, memory[kind]]));
  const uses = { sessions, openStreams, subscriptions: stateless?.subscriptions, parked: stateless?.asks?.parked.now, ...ofClients };
  return Object.entries(uses).flatMap(([use, amount = 0]) => (amount === 0 ? [] : [`${use}: ${amount}`]));
}

/**
 * Must be called when no request is in flight.
 *
 * @returns the differences between the wrapper and its clients; undefined if the wrapper has no counters.
 */
export function discrepancies(status: Status | undefined, metrics: Series | undefined, tally: Tally): string[] | undefined {
  if (status?.counters === undefined) return undefined;
  const { sent, verdicts, errorsByCode, uncounted } = tally;
  const { requests, answers } = status.counters;
  const refused = requests.refused ?? {};
  const failures = (answers["failures"] ?? {}) as Counts;
  // A client that has disconnected does not know the responses.
  const unseen = verdicts.abandoned + verdicts["cut-by-delete"] + verdicts.lost;
  const found: string[] = [];
  const check: Check = (what, theirs, fewest, most) => {
    if (theirs < fewest || theirs > most) found.push(`${what}: ${theirs}, but the clients counted ${fewest} to ${most}`);
  };

  const ended = total(failures) + total(answers as Counts);
  check("requests accepted, all of which have ended", requests.accepted, ended, ended);
  // SESSION_NOT_FOUND is not counted as a rejected request.
  const gone = errorsByCode.get("SESSION_NOT_FOUND") ?? 0;
  const taken = requests.accepted + total(refused);
  check("requests accepted or refused", taken, sent - gone - unseen - uncounted.sent, sent - gone);
  check("results", Number(answers["results"]), verdicts.right - uncounted.right, verdicts.right + unseen);
  for (const code of new Set([...errorsByCode.keys(), ...Object.keys(failures), ...Object.keys(refused)])) {
    if (code === "SESSION_NOT_FOUND") continue;
    const seen = errorsByCode.get(code) ?? 0;
    const fewest = seen - (uncounted.errorsByCode.get(code) ?? 0);
    check(code, (failures[code] ?? 0) + (refused[code] ?? 0), fewest, seen + unseen);
  }
  if (metrics !== undefined) checkMetrics(metrics, tally, check);
  return found;
}

function total(counts: Counts): number {
  return Object.values(counts).reduce((sum, count) => (typeof count === "number" ? sum + count : sum), 0);
}
