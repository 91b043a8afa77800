// Compares the counters of the sidecar with those of its clients.

import type { ProgramProcess } from "../bench/program.ts";
import { Series } from "../test/support/series.ts";
import { type Ledger, UNCOUNTED } from "./ledger.ts";

/** The used part of `/status` (docs/operations/status.md). */
interface Status {
  readonly sessions?: number;
  readonly openStreams?: number;
  readonly stateless?: {
    readonly subscriptions: number;
    readonly asks?: { readonly parked: { readonly now: number; readonly expired: number } };
  };
  readonly memory?: Readonly<Record<string, number>>;
  readonly counters: {
    readonly requests: { readonly accepted: number; readonly refused?: Counts };
    readonly answers: { readonly [kind: string]: number | Counts };
  };
}

const CLIENT_MEMORY = ["bodies", "requests", "replay", "unread", "subscriptions"];

type Counts = Readonly<Record<string, number>>;

export async function readStatus(sidecar: ProgramProcess): Promise<Status> {
  return JSON.parse(await read(sidecar, "/status")) as Status;
}

async function read({ origin, program }: ProgramProcess, path: string): Promise<string> {
  const response = await fetch(new URL(path, origin), { headers: { Authorization: `Bearer ${program.token}` } });
  if (!response.ok) throw new Error(`${path}: ${response.status}`);
  return response.text();
}

/**
 * Must be called when no request is in flight and all clients have left.
 *
 * @returns the uses of memory and connections that are not zero, with their amounts.
 */
export function leftovers(status: Status): string[] {
  const { sessions, openStreams, stateless, memory = {} } = status;
  // Running servers have buffers for their output.
  const ofClients = Object.fromEntries(CLIENT_MEMORY.map((kind) => [`${kind} in memory`, memory[kind]]));
  const uses = { sessions, openStreams, subscriptions: stateless?.subscriptions, parked: stateless?.asks?.parked.now, ...ofClients };
  return Object.entries(uses).flatMap(([use, amount = 0]) => (amount === 0 ? [] : [`${use}: ${amount}`]));
}

/** Returns the differences between the sidecar and its clients. Must be called when no request is in flight. */
function discrepancies(status: Status, metrics: Series, ledger: Ledger): string[] {
  const { sent, verdicts, errorsByCode, uncounted } = ledger;
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
  checkMetrics(metrics, ledger, check);
  return found;
}

function total(counts: Counts): number {
  return Object.values(counts).reduce((sum, count) => (typeof count === "number" ? sum + count : sum), 0);
}

const DURATION = "mcp_server_operation_duration_seconds_count";

/** Notes a difference if a number of the sidecar is not between these. */
type Check = (what: string, theirs: number, fewest: number, most: number) => void;

/** Checks the number of durations by error. Must be called when no request is in flight. */
function checkMetrics(series: Series, { verdicts, errorsByCode, uncounted }: Ledger, check: Check): void {
  const unseen = verdicts.abandoned + verdicts["cut-by-delete"] + verdicts.lost;
  // These requests may have begun before the measurement, and end after it.
  const count = (labels: Readonly<Record<string, string | undefined>>): number =>
    [...UNCOUNTED].reduce(
      (sum, method) => sum - series.sum(DURATION, { ...labels, mcp_method_name: method }),
      series.sum(DURATION, labels),
    );
  const right = verdicts.right - uncounted.right;
  check("metrics: results", count({ error_type: undefined }) + count({ error_type: "tool_error" }), right, right + unseen);
  for (const code of new Set([...errorsByCode.keys(), ...series.values(DURATION, "error_type")])) {
    // A session that is not found is rejected before it is a request, and is rejected for streams too.
    if (!/^[A-Z_]+$/.test(code) || code === "SESSION_NOT_FOUND" || code === "_OTHER") continue;
    const seen = (errorsByCode.get(code) ?? 0) - (uncounted.errorsByCode.get(code) ?? 0);
    check(`metrics: ${code}`, count({ error_type: code }), seen, seen + unseen);
  }
}

export interface Inspection {
  /** Uses in `/status` that were not zero without clients. */
  readonly leftovers: readonly string[];
  /** Differences between the counters of the sidecar and those of the clients. */
  readonly counterDiscrepancies: readonly string[];
}

/** Must be called when no request is in flight and all clients have left. */
export async function inspect(sidecar: ProgramProcess, ledger: Ledger): Promise<Inspection> {
  const status = await readStatus(sidecar);
  const metrics = new Series(await read(sidecar, "/metrics"));
  return { leftovers: leftovers(status), counterDiscrepancies: discrepancies(status, metrics, ledger) };
}
