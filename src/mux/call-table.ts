import type { Counters, RequestEnding } from "../counters.ts";
import { SidecarError } from "../errors.ts";
import { shorten } from "../json/text.ts";
import { outgoing } from "../jsonrpc/outgoing.ts";
import { PendingRequests } from "../jsonrpc/pending-requests.ts";
import type { Log } from "../observability/log.ts";
import type { Call } from "./call.ts";
import type { CallVerdict } from "./call-terms.ts";
import { requestTimedOut } from "./failures.ts";
import type { Retries } from "./retries.ts";
import type { Session } from "./session.ts";
import type { Turns } from "./turns.ts";
import type { Upstream } from "../upstream/port.ts";

export interface CallTableOptions {
  readonly upstream: Upstream;
  /** Where calls wait that were not sent yet. */
  readonly turns: Turns;
  readonly retries: Retries;
  readonly counters: Counters;
  readonly log: Log;
  readonly nowMs: () => number;
}

/** The calls of a lane that await their answer, and how each of them can end without one. */
export class CallTable {
  readonly #upstream: Upstream;
  readonly #turns: Turns;
  readonly #retries: Retries;
  readonly #counters: Counters;
  readonly #log: Log;
  readonly #nowMs: () => number;
  readonly #pending = new PendingRequests<Call>();
  /** The sidecar's own requests hold up nobody, and nobody waits for them. */
  #ofClients = 0;
  #onEmpty: (() => void) | undefined;
  /** Told of each call whose time is up. */
  onTimeout: ((call: Call) => void) | undefined;

  constructor({ upstream, turns, retries, counters, log, nowMs }: CallTableOptions) {
    this.#upstream = upstream;
    this.#turns = turns;
    this.#retries = retries;
    this.#counters = counters;
    this.#log = log;
    this.#nowMs = nowMs;
  }

  /** Those of clients. */
  get size(): number {
    return this.#ofClients;
  }

  /** What was minted last. */
  get lastId(): number {
    return this.#pending.lastId;
  }

  mintId(): number {
    return this.#pending.mintId();
  }

  add(call: Call): void {
    this.#pending.add(call.wireId, call);
    if (call.session === undefined) return;
    this.#counters.requests.accepted++;
    this.#ofClients++;
    call.session.callsInFlight++;
  }

  /** Calls may be ended while they are iterated. */
  values(): MapIterator<Call> {
    return this.#pending.values();
  }

  /** The call that the server knows by this id; one that was never sent it cannot know. */
  getWritten(wireId: unknown): Call | undefined {
    const call = this.#pending.get(wireId);
    return call?.state === "written" ? call : undefined;
  }

  /**
   * The calls of clients that the server has, if all belong to one session: its oldest one, and whether that is the only one. Calls of other
   * sessions count until their answer comes, also after they were given up.
   */
  ofOnlySession(): { readonly call: Call; readonly session: Session; readonly isOnly: boolean } | undefined {
    let oldest: Call | undefined;
    let isOnly = true;
    for (const call of this.#pending.values()) {
      if (call.session === undefined || call.state !== "written") continue;
      if (oldest !== undefined && oldest.session !== call.session) return undefined;
      isOnly = oldest === undefined;
      oldest ??= call;
    }
    const session = oldest?.session;
    if (oldest === undefined || session === undefined || this.#pending.hasAbandonedOfOthers(session.id, this.#nowMs())) return undefined;
    return { call: oldest, session, isOnly };
  }

  /** Removes the call that an answer is for. */
  takeAnswered(wireId: unknown, ending: RequestEnding): Call | undefined {
    const call = this.getWritten(wireId);
    if (call === undefined) return undefined;
    this.#remove(call, ending);
    return call;
  }

  /** Why the call of a late answer was given up. */
  takeAbandoned(wireId: unknown): string | undefined {
    return this.#pending.takeAbandoned(wireId);
  }

  /**
   * Ends a call before its answer: tells the server where it may know of it (MCP 2025-11-25, basic/utilities/cancellation), and the
   * client where it still listens.
   *
   * @param ending what the client is answered, or why it is not.
   * @param cancellation the line for the server, where the client has written one itself.
   */
  giveUp(call: Call, reason: string, ending: SidecarError | "dismissed" | "unread", cancellation?: string): void {
    const { wireId, method } = call;
    if (call.state === "written") {
      this.#pending.abandon(wireId, reason, this.#nowMs(), call.session?.id);
      const params = { requestId: wireId, reason };
      this.#upstream.send(outgoing(cancellation ?? JSON.stringify({ jsonrpc: "2.0", method: "notifications/cancelled", params })));
    } else {
      this.#turns.remove(call);
      this.#upstream.withdraw(call);
    }
    const error = ending instanceof SidecarError ? ending : undefined;
    this.#remove(call, ending instanceof SidecarError ? ending.code : ending);
    this.#log.info({ method: shorten(method), requestId: wireId, reason, code: error?.code }, "request given up");
    if (error !== undefined) call.exchange.fail(error);
    else if (ending === "dismissed") call.exchange.dismiss();
  }

  /** Answers a call that was not sent, in the server's place. */
  answer(call: Call, verdict: CallVerdict): void {
    if ("error" in verdict) return this.giveUp(call, "refused by the tool policy", verdict.error);
    this.#turns.remove(call);
    this.#upstream.withdraw(call);
    this.#remove(call, "results");
    call.exchange.respond(`{"jsonrpc":"2.0","id":${call.exchange.idText},"result":${verdict.resultText}}`);
  }

  /** Gives up several calls: those that wait go first, so that none of them is sent in the place of another. */
  giveUpAll(calls: Iterable<Call>, reason: string, describe: (call: Call) => SidecarError): void {
    const { held = [], others = [] } = Object.groupBy(calls, (call) => (this.#turns.has(call) ? "held" : "others"));
    for (const call of [...held, ...others]) this.giveUp(call, reason, describe(call));
  }

  /** Ends the calls whose time is up. @returns the next deadline, or Infinity. */
  expire(nowMs: number): number {
    let nextMs = Number.POSITIVE_INFINITY;
    for (const call of this.#pending.values()) {
      if (call.deadlineMs > nowMs) nextMs = Math.min(nextMs, call.deadlineMs);
      else this.timeOut(call);
    }
    return nextMs;
  }

  /** Ends a call whose time is up, however often that was renewed. */
  timeOut(call: Call): void {
    this.onTimeout?.(call);
    const takenMs = Math.round(call.deadlineMs - call.exchange.acceptedAtMs);
    const [method, sent, effect] = this.#retries.fateOf(call);
    this.giveUp(call, "timeout", requestTimedOut(method, takenMs, sent, effect));
  }

  /** Gives the calls that the server has a new time, within the limit of each. */
  extend(nowMs: number): void {
    for (const call of this.#pending.values()) if (call.state === "written") extendDeadline(call, nowMs);
  }

  /** Begins the answers of the server that are long in coming. @returns when the next one will be, or Infinity. */
  keepAlive(nowMs: number, silenceMs: number): number {
    let nextMs = Number.POSITIVE_INFINITY;
    for (const { exchange, state } of this.#pending.values()) {
      // One that is held may yet be answered 503, which an answer that has begun cannot be.
      const dueAtMs = state === "written" ? exchange.acceptedAtMs + silenceMs : nowMs + silenceMs;
      if (dueAtMs > nowMs) nextMs = Math.min(nextMs, dueAtMs);
      else exchange.keepAlive();
    }
    return nextMs;
  }

  /** The server is gone: takes back the calls that it may have seen and that the next one is sent once more. */
  takeRepeated(): Call[] {
    const nowMs = this.#nowMs();
    const repeated: Call[] = [];
    for (const call of this.#pending.values()) {
      if (!this.#retries.repeats(call, nowMs)) continue;
      call.state = "queued";
      call.repeat = "due";
      repeated.push(call);
    }
    return repeated;
  }

  /** The server is gone: ends the calls that it may have seen, and the sidecar's own. @returns how many. */
  failWritten(describe: (call: Call) => SidecarError): number {
    let count = 0;
    for (const call of this.#pending.values()) {
      if (call.state !== "written" && call.session !== undefined) continue;
      count++;
      const error = describe(call);
      this.#remove(call, error.code);
      call.exchange.fail(error);
    }
    this.#pending.forgetAbandoned();
    return count;
  }

  /** Where every call ends, however it does. */
  #remove(call: Call, ending: RequestEnding): void {
    this.#pending.take(call.wireId);
    call.stopCheck?.();
    // Up to now its session was in use, however long ago its client was last heard of.
    if (call.session !== undefined) {
      this.#counters.countEnding(ending);
      this.#ofClients--;
      call.session.callsInFlight--;
      call.session.lastUsedAtMs = this.#nowMs();
    }
    call.onSettled?.(ending === "results");
    this.#turns.giveBack(call);
    if (this.#ofClients === 0) this.#onEmpty?.();
    this.#turns.release();
  }

  /** Resolves when no client awaits an answer. */
  whenEmpty(): Promise<void> {
    if (this.#ofClients === 0) return Promise.resolve();
    return new Promise((resolve) => {
      this.#onEmpty = resolve;
    });
  }
}

/** Gives a call its time once more. */
export function extendDeadline(call: Call, nowMs: number): void {
  call.deadlineMs = Math.min(call.lastDeadlineMs, Math.max(call.deadlineMs, nowMs + call.timeoutMs));
}
