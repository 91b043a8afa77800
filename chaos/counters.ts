import type { ProgramProcess } from "../bench/program.ts";
import { type Status, readStatus } from "../test/support/status.ts";
import type { Ledger } from "./ledger.ts";

const CLIENT_MEMORY = ["bodies", "requests", "replay", "unread", "subscriptions"];

export interface Inspection {
  readonly leftovers: readonly string[];
  readonly counterDiscrepancies: readonly string[];
}

/** Must be called when no request is in flight and all clients have left. */
export async function inspect(sidecar: ProgramProcess, ledger: Ledger): Promise<Inspection> {
  const status = await readStatus(sidecar, { Authorization: `Bearer ${sidecar.program.token}` });
  return { leftovers: leftovers(status), counterDiscrepancies: discrepancies(status, ledger) };
}

function leftovers({ sessions, openStreams, stateless, memory }: Status): string[] {
  // Running servers have buffers for their output.
  const ofClients = Object.fromEntries(CLIENT_MEMORY.map((kind) => [`${kind} in memory`, memory[kind]]));
  const uses = { sessions, openStreams, subscriptions: stateless?.subscriptions, parked: stateless?.asks?.parked.now, ...ofClients };
  return Object.entries(uses).flatMap(([use, amount = 0]) => (amount === 0 ? [] : [`${use}: ${amount}`]));
}

function discrepancies({ counters }: Status, { sent, verdicts, errorsByCode, uncounted }: Ledger): string[] {
  const { accepted, refused = {} } = counters.requests;
  const { failures = {}, ...otherAnswers } = counters.answers;
  // A client that has disconnected does not know the responses.
  const unseen = verdicts.abandoned + verdicts["cut-by-delete"] + verdicts.lost;
  const found: string[] = [];
  const check = (what: string, theirs: number, fewest: number, most: number): void => {
    if (theirs < fewest || theirs > most) found.push(`${what}: ${theirs}, but the clients counted ${fewest} to ${most}`);
  };

  const ended = total(failures) + total(otherAnswers);
  check("requests accepted, all of which have ended", accepted, ended, ended);
  // SESSION_NOT_FOUND is not counted as a rejected request.
  const gone = errorsByCode.get("SESSION_NOT_FOUND") ?? 0;
  check("requests accepted or refused", accepted + total(refused), sent - gone - unseen - uncounted.sent, sent - gone);
  check("results", counters.answers.results, verdicts.right - uncounted.right, verdicts.right + unseen);
  for (const code of new Set([...errorsByCode.keys(), ...Object.keys(failures), ...Object.keys(refused)])) {
    if (code === "SESSION_NOT_FOUND") continue;
    const seen = errorsByCode.get(code) ?? 0;
    const fewest = seen - (uncounted.errorsByCode.get(code) ?? 0);
    check(code, (failures[code] ?? 0) + (refused[code] ?? 0), fewest, seen + unseen);
  }
  return found;
}

function total(counts: object): number {
  return Object.values(counts).reduce((sum: number, count: unknown) => (typeof count === "number" ? sum + count : sum), 0);
}
