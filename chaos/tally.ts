// The numbers of requests and their outcomes: of a whole run, or of those that one process got.

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
  /** No response, because the driver killed the replica that had the request. */
  | "cut-by-kill"
  /** Sent after SIGTERM to the wrapper, and not accepted. */
  | "too-late";

/**
 * The requests that the sidecar counts only as requests without a session: it answers a discovery itself, and a subscription can stay open. A
 * server with sessions gets a counted request for each resource of a subscription.
 */
export const UNCOUNTED: ReadonlySet<string> = new Set(["server/discover", "subscriptions/listen"]);

export class Tally {
  readonly verdicts: Record<Verdict, number> = {
    right: 0,
    error: 0,
    untyped: 0,
    wrong: 0,
    crossed: 0,
    lost: 0,
    abandoned: 0,
    "cut-by-delete": 0,
    "cut-by-kill": 0,
    "too-late": 0,
  };
  sent = 0;
  /** The part of these numbers that the counters of the sidecar need not have. */
  readonly uncounted = { sent: 0, right: 0, errorsByCode: new Map<string, number>() };
  readonly errorsByCode = new Map<string, number>();

  /** @param what the method or tool of the request. */
  countSent(what: string): void {
    this.sent++;
    if (UNCOUNTED.has(what)) this.uncounted.sent++;
  }

  countEnd(what: string, verdict: Verdict, detail = ""): void {
    this.verdicts[verdict]++;
    if (verdict === "error") increment(this.errorsByCode, detail);
    if (!UNCOUNTED.has(what)) return;
    if (verdict === "right") this.uncounted.right++;
    if (verdict === "error") increment(this.uncounted.errorsByCode, detail);
  }
}

export function increment(counts: Map<string, number>, key: string): void {
  counts.set(key, (counts.get(key) ?? 0) + 1);
}
