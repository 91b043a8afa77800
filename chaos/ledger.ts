// The outcomes of all requests. Each request is settled exactly once.

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
  /** Sent after SIGTERM to the wrapper, and not accepted. */
  | "too-late";

export interface RequestRecord {
  readonly client: string;
  /** A method, `echo`, or a fault. */
  readonly what: string;
  readonly id: number;
  readonly nonce: string;
  readonly text: string;
  /** The time when the whole request had been passed to the operating system. */
  sentAtMs: number;
  verdict?: Verdict;
}

/** Longer than all time limits that the wrappers are configured with. */
export const LOST_AFTER_MS = 10_000;
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
  /** Second responses to a request. */
  answeredTwice = 0;
  /** Responses to requests that were never sent. */
  strayAnswers = 0;
  /** Notifications for another client's request. */
  crossedNotifications = 0;
  readonly errorsByCode = new Map<string, number>();
  /** Lost requests by method or tool, and by the end of the wait. */
  readonly lostBy = new Map<string, number>();
  /** The first offences in detail, for the search for their cause. */
  readonly examples: string[] = [];
  readonly #pending = new Set<RequestRecord>();
  readonly #startedAtMs = performance.now();
  /** The requests that were in flight at SIGTERM to the wrapper. */
  inFlightAtEnd: readonly RequestRecord[] = [];
  #endingAtMs = Number.POSITIVE_INFINITY;

  open(record: RequestRecord): void {
    this.sent++;
    this.#pending.add(record);
  }

  settle(record: RequestRecord, verdict: Verdict, detail = ""): void {
    if (record.verdict !== undefined) return;
    if (verdict === "untyped" && this.isTooLate(record)) return this.settle(record, "too-late");
    record.verdict = verdict;
    this.#pending.delete(record);
    this.verdicts[verdict]++;
    if (verdict === "error") increment(this.errorsByCode, detail);
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

  /** Must be called before SIGTERM. The wrapper may then reject new requests, but must still answer all earlier ones. */
  markEnding(): void {
    this.#endingAtMs = performance.now();
    this.inFlightAtEnd = [...this.#pending].filter((record) => !this.isTooLate(record));
  }

  isTooLate(record: RequestRecord): boolean {
    return Number.isFinite(this.#endingAtMs) && record.sentAtMs >= this.#endingAtMs;
  }

  #keep(verdict: string, { client, what, id }: Pick<RequestRecord, "client" | "what" | "id">, detail: string): void {
    if (this.examples.length >= MAX_EXAMPLES) return;
    const atMs = Math.round(performance.now() - this.#startedAtMs);
    this.examples.push(`${verdict} at ${atMs} ms: ${client}, ${what} ${id}: ${detail.slice(0, 300)}`);
  }
}

export function increment(counts: Map<string, number>, key: string): void {
  counts.set(key, (counts.get(key) ?? 0) + 1);
}
