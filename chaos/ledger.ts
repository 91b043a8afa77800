// The outcomes of all requests, each settled exactly once, and the recoveries after exits of servers.

export type Verdict =
  | "right"
  /** A JSON-RPC error for the request. */
  | "error"
  /** An HTTP error without a JSON-RPC error, which MCP clients cannot read. */
  | "untyped"
  /** A response that does not match the request. */
  | "wrong"
  /** The response to another client's request. */
  | "crossed"
  /** No response, although the client waited longer than all time limits. */
  | "lost"
  /** The client itself disconnected. */
  | "abandoned"
  /** No response, after the client itself had ended the session. */
  | "cut-by-delete"
  /** Sent after SIGTERM to the sidecar, and not accepted. */
  | "too-late";

/**
 * The requests that the sidecar counts only as requests without a session: it answers a discovery itself, and a subscription can stay open. A
 * server with sessions gets a counted request for each resource of a subscription.
 */
const UNCOUNTED: ReadonlySet<string> = new Set(["server/discover", "subscriptions/listen"]);

export function increment(counts: Map<string, number>, key: string): void {
  counts.set(key, (counts.get(key) ?? 0) + 1);
}

export interface RequestRecord {
  readonly client: string;
  /** A method, `echo`, or a fault. */
  readonly what: string;
  readonly id: number;
  readonly nonce: string;
  readonly text: string;
  /** True for a request of MCP 2026-07-28. */
  readonly isStateless?: boolean;
  /** The time when the whole request had been passed to the operating system. */
  sentAtMs: number;
  verdict?: Verdict;
}

/**
 * Longer than all time limits that the sidecar is configured with. A question that a client has lost with its connection renews the time
 * of the later calls at its server, up to ten times REQUEST_TIMEOUT_MS.
 */
export const LOST_AFTER_MS = 35_000;
const MAX_EXAMPLES = 12;

export class Ledger {
  readonly verdicts: Record<Verdict, number> = {
    right: 0,
    error: 0,
    untyped: 0,
    wrong: 0,
    crossed: 0,
    lost: 0,
    abandoned: 0,
    "cut-by-delete": 0,
    "too-late": 0,
  };
  sent = 0;
  /** The part of these numbers that the counters of the sidecar need not have. */
  readonly uncounted = { sent: 0, right: 0, errorsByCode: new Map<string, number>() };
  readonly errorsByCode = new Map<string, number>();
  answeredTwice = 0;
  /** Responses to requests that were never sent. */
  strayAnswers = 0;
  crossedNotifications = 0;
  /** Lost requests by method or tool, and by the end of the wait. */
  readonly lostBy = new Map<string, number>();
  /** The first offences in detail, for the search for their cause. */
  readonly examples: string[] = [];
  readonly #pending = new Set<RequestRecord>();
  readonly #startedAtMs = performance.now();
  /** The requests that were in flight at SIGTERM to the sidecar. */
  inFlightAtEnd: readonly RequestRecord[] = [];
  #endingAtMs = Number.POSITIVE_INFINITY;

  open(record: RequestRecord): void {
    this.sent++;
    if (UNCOUNTED.has(record.what)) this.uncounted.sent++;
    this.#pending.add(record);
  }

  settle(record: RequestRecord, verdict: Verdict, detail = ""): void {
    if (record.verdict !== undefined) return;
    if (verdict === "untyped" && this.isTooLate(record)) return this.settle(record, "too-late");
    record.verdict = verdict;
    this.#pending.delete(record);
    this.verdicts[verdict]++;
    if (verdict === "error") increment(this.errorsByCode, detail);
    if (UNCOUNTED.has(record.what)) {
      if (verdict === "right") this.uncounted.right++;
      if (verdict === "error") increment(this.uncounted.errorsByCode, detail);
    }
    if (verdict === "lost") increment(this.lostBy, `${record.what}: ${detail}`);
    if (verdict === "lost" || verdict === "wrong" || verdict === "crossed" || verdict === "untyped") this.#keep(verdict, record, detail);
  }

  countSecondAnswer(record: Pick<RequestRecord, "client" | "what" | "id">, detail: string): void {
    this.answeredTwice++;
    this.#keep("answered twice", record, detail);
  }

  countCrossedNotification(client: string, detail: string): void {
    this.crossedNotifications++;
    this.#keep("crossed notification", { client, what: "notification", id: 0 }, detail);
  }

  countStrayAnswer(client: string, detail: string): void {
    this.strayAnswers++;
    this.#keep("stray answer", { client, what: "", id: 0 }, detail);
  }

  /** Must be called before SIGTERM. The sidecar may then reject new requests, but must still answer all earlier ones. */
  markEnding(): void {
    this.#endingAtMs = performance.now();
    this.inFlightAtEnd = [...this.#pending].filter((record) => !this.isTooLate(record));
  }

  isTooLate(record: RequestRecord): boolean {
    return Number.isFinite(this.#endingAtMs) && record.sentAtMs >= this.#endingAtMs;
  }

  #keep(verdict: string, { client, what, id }: Pick<RequestRecord, "client" | "what" | "id">, detail: string): void {
    if (this.examples.length >= MAX_EXAMPLES) return;
    this.examples.push(`${verdict} at ${this.#atMs()} ms: ${client}, ${what} ${id}: ${detail.slice(0, 300)}`);
  }

  #atMs(): number {
    return Math.round(performance.now() - this.#startedAtMs);
  }
}

interface Outage {
  readonly pid: number;
  readonly clients: ReadonlySet<string>;
  /** Undefined if a call makes the server exit: the server then records the time. */
  readonly exitedAtMs: number | undefined;
  recoveredAtMs?: number;
}

export interface Recovery {
  readonly recoveries: number;
  /** Exits of servers whose clients have not had a right response since. */
  readonly neverRecovered: number;
  readonly longestRecoveryMs: number;
}

export class RecoveryClock {
  readonly #outages = new Map<number, Outage>();
  readonly #open = new Set<Outage>();

  expect(pid: number, clients: readonly string[], exitedAtMs?: number): void {
    if (clients.length === 0 || this.#outages.has(pid)) return;
    const outage = { pid, clients: new Set(clients), exitedAtMs };
    this.#outages.set(pid, outage);
    this.#open.add(outage);
  }

  onRight(client: string, serverPid: number): void {
    for (const outage of this.#open) {
      if (outage.pid === serverPid || !outage.clients.has(client)) continue;
      outage.recoveredAtMs = Date.now();
      this.#open.delete(outage);
    }
  }

  /** @param endsMs the recorded times of exits by pid. A server without one did not exit: the call never reached it. */
  summary(endsMs: ReadonlyMap<number, number>): Recovery {
    let recoveries = 0;
    let neverRecovered = 0;
    let longestRecoveryMs = 0;
    for (const { pid, exitedAtMs, recoveredAtMs } of this.#outages.values()) {
      const beginMs = exitedAtMs ?? endsMs.get(pid);
      if (beginMs === undefined) continue;
      if (recoveredAtMs === undefined) {
        neverRecovered++;
      } else {
        recoveries++;
        longestRecoveryMs = Math.max(longestRecoveryMs, recoveredAtMs - beginMs);
      }
    }
    return { recoveries, neverRecovered, longestRecoveryMs };
  }
}
