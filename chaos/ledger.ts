// What became of every request: each is settled exactly once.

export type Verdict =
  | "right"
  /** An error that says what happened. */
  | "error"
  /** HTTP says no, in words that no MCP client can read. */
  | "untyped"
  /** An answer that does not belong to the request. */
  | "wrong"
  /** The answer to another client's request. */
  | "crossed"
  /** No answer, though the client waited longer than any time limit. */
  | "lost"
  /** The client itself went away. */
  | "abandoned"
  /** Unanswered, after the client had itself ended the session. */
  | "cut-by-delete"
  /** Sent after the wrapper had been told to end, and not taken any more. */
  | "too-late";

export interface RequestRecord {
  readonly client: string;
  /** A method, `echo`, or a fault. */
  readonly what: string;
  readonly id: number;
  readonly nonce: string;
  readonly text: string;
  /** When all of it had been handed to the operating system. */
  sentAtMs: number;
  verdict?: Verdict;
}

/** Longer than any wrapper here is configured to let a request wait. */
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
  /** Answers to what had been answered. */
  answeredTwice = 0;
  /** Answers to requests that nobody had sent. */
  strayAnswers = 0;
  /** Notifications that were about another client's request. */
  crossedNotifications = 0;
  readonly errorsByCode = new Map<string, number>();
  /** By what was asked, and how the waiting ended. */
  readonly lostBy = new Map<string, number>();
  /** The first few of what must not be, for whoever looks for the cause. */
  readonly examples: string[] = [];
  readonly #pending = new Set<RequestRecord>();
  readonly #startedAtMs = performance.now();
  /** Those that were in flight when the wrapper was told to end. */
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

  /** From now on the wrapper need not take new requests; those it has got it still has to answer. */
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
