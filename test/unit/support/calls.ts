import { Counters } from "../../../src/counters.ts";
import { type Call } from "../../../src/mux/call.ts";
import { CallTable } from "../../../src/mux/call-table.ts";
import { Retries } from "../../../src/mux/retries.ts";
import { Turns } from "../../../src/mux/turns.ts";
import { RecordedLog } from "../../support/recorded-log.ts";
import { RecordedExchange } from "./recorded-exchange.ts";
import { RecordedUpstream } from "./recorded-upstream.ts";
import { newSession } from "./sessions.ts";

export interface CallInput {
  readonly method?: string;
  readonly state?: Call["state"];
  readonly acceptedAtMs?: number;
  readonly deadlineMs?: number;
  readonly lastDeadlineMs?: number;
  readonly progressTokenText?: string;
  readonly readsStreams?: boolean;
  readonly onSettled?: (hasResult: boolean) => void;
  /** A request of the sidecar's own has none. */
  readonly session?: "own";
}

/** A call whose exchange is recorded. */
export interface RecordedCall extends Call {
  readonly exchange: RecordedExchange;
}

/** A call table between a recorded server and recorded exchanges. */
export class CallBench {
  readonly upstream = new RecordedUpstream();
  readonly session = newSession();
  readonly counters = new Counters();
  readonly turns: Turns = new Turns({
    maxHeld: 10,
    maxInFlight: 100,
    countCalls: () => this.table.size,
    isFailed: () => false,
    watch: () => undefined,
  });
  readonly table: CallTable = new CallTable({
    upstream: this.upstream,
    turns: this.turns,
    retries: new Retries("off"),
    counters: this.counters,
    log: new RecordedLog(),
    nowMs: () => 70,
  });

  constructor() {
    this.upstream.isRunning = true;
  }

  /** A call that the server has read, unless said otherwise. */
  add(input: CallInput = {}): RecordedCall {
    const { method = "tools/call", state = "written", acceptedAtMs = 0, deadlineMs = 100, lastDeadlineMs = 1000, readsStreams } = input;
    const call: RecordedCall = {
      wireId: this.table.mintId(),
      method,
      toolName: undefined,
      state,
      session: input.session === "own" ? undefined : this.session,
      exchange: new RecordedExchange('"own"', acceptedAtMs, readsStreams),
      text: "{}",
      byteLength: 2,
      isKept: true,
      sentAtMs: state === "written" ? acceptedAtMs : undefined,
      progressTokenText: input.progressTokenText,
      timeoutMs: 100,
      deadlineMs,
      lastDeadlineMs,
      expiresAtMs: Number.POSITIVE_INFINITY,
      hasShownProgress: false,
      repeat: "none",
      onSettled: input.onSettled,
      flow: this.session,
      takesSlot: true,
      release: () => undefined,
      refuse: () => undefined,
    };
    this.table.add(call);
    return call;
  }
}
