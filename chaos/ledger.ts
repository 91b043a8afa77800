// The outcomes of all requests. Each request is settled exactly once.

import { increment, Tally, type Verdict } from "./tally.ts";

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
  /** The numbers of the replica that has got the request; undefined without replicas. */
  tally?: Tally | undefined;
}

/**
 * Longer than all time limits that the wrappers are configured with. A question that a client has lost with its connection renews the time
 * of the later calls at its server, up to ten times REQUEST_TIMEOUT_MS.
 */
export const LOST_AFTER_MS = 35_000;
const MAX_EXAMPLES = 12;

export class Ledger extends Tally {
  /** Second responses to a request. */
  answeredTwice = 0;
  /** Responses to requests that were never sent. */
  strayAnswers = 0;
  /** Notifications for another client's request. */
  crossedNotifications = 0;
  /** Sessions that a 404 ended, although their clients had not: the time, and the name of the client. */
  readonly sessionEnds: string[] = [];
  /** Streams of calls that were resumed, because their replica was killed. */
  streamsResumed = 0;
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
    this.countSent(record.what);
    this.#pending.add(record);
  }

  settle(record: RequestRecord, verdict: Verdict, detail = ""): void {
    if (record.verdict !== undefined) return;
    if (verdict === "untyped" && this.isTooLate(record)) return this.settle(record, "too-late");
    record.verdict = verdict;
    this.#pending.delete(record);
    this.countEnd(record.what, verdict, detail);
    record.tally?.countEnd(record.what, verdict, detail);
    if (verdict === "lost") increment(this.lostBy, `${record.what}: ${detail}`);
    if (verdict === "lost" || verdict === "wrong" || verdict === "crossed" || verdict === "untyped") this.#keep(verdict, record, detail);
  }

  /** Counts the request for the replica that gets it, too. One that refused it before has ended, and its numbers are not used. */
  attach(record: RequestRecord, tally: Tally): void {
    record.tally = tally;
    tally.countSent(record.what);
  }

  /** Must be called before the response may come from another replica. */
  detach(record: RequestRecord): void {
    record.tally?.countEnd(record.what, "abandoned");
    record.tally = undefined;
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

  countSessionEnd(client: string): void {
    this.sessionEnds.push(`session ended at ${this.#atMs()} ms: ${client}`);
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
    this.examples.push(`${verdict} at ${this.#atMs()} ms: ${client}, ${what} ${id}: ${detail.slice(0, 300)}`);
  }

  #atMs(): number {
    return Math.round(performance.now() - this.#startedAtMs);
  }
}
