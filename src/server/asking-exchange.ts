import { randomBytes } from "node:crypto";
import { type Context, onDrain } from "../context.ts";
import { decodeString } from "../json/text.ts";
import { type AskKinds, isSubset, kindsOf, offeredKinds } from "../mcp/capabilities.ts";
import { SidecarError } from "../mcp/errors.ts";
import { readMessage, type RequestMessage, type ResponseMessage, Slot } from "../mcp/message.ts";
import { inputRequired, type ServerInfo } from "../mcp/result.ts";
import { responseToClient } from "../mcp/rewrite.ts";
import { type MemoryAccount, type MemoryHolder, type Reservation, textMemoryBytes } from "../memory.ts";
import type { AskedCall, Asking, Reply, ServerAsk } from "../session/session.ts";
import type { Timer } from "../timers.ts";
import { serversPerClient } from "./asking-lanes.ts";
import { bindingOf, earlyAnswersOf, missingCapability, OpenAsks } from "./asks.ts";
import { internalError } from "./failures.ts";
import type { LegacyReply } from "./legacy-calls.ts";

/** The time in which further questions join the first one. A server that asks several at once sends them together. */
const SETTLE_MS = 40;

/** The errors of a call whose server has answered it. After any other error, the call is gone. */
const KEPT_ERRORS: ReadonlySet<string> = new Set([
  "UPSTREAM_RESPONSE_TOO_LARGE",
  "UPSTREAM_INVALID_RESPONSE",
  "MISSING_CAPABILITY",
  "INTERNAL_ERROR",
]);

/**
 * The reply of a call that may need several requests of its client: each result `input_required` ends one, and the answers come with the
 * next one (MCP 2026-07-28, basic/utilities/mrtr). The server sees one call, and gets the answers as responses to its own requests.
 *
 * Between two requests the call is parked. Its result is then kept for the next one.
 */
export class AskingReply implements Reply, Asking {
  readonly asking = this;
  readonly memory: MemoryAccount;
  readonly #context: Context;
  readonly #parked: ParkedCalls;
  readonly #raiseLevel: (level: string) => void;
  readonly #binding: string;
  readonly #asks: OpenAsks;
  /** The kinds of questions that were refused because the client has not declared them. */
  #missing: AskKinds = 0;
  #call: AskedCall | undefined;
  /** The request that waits for the response; undefined while the call is parked, and after its end. */
  #round: LegacyReply | undefined;
  #lastRound: LegacyReply;
  /** The response to the call, if it has ended while it was parked. */
  #outcome: { readonly response: string | SidecarError; readonly memory: Reservation } | undefined;
  readonly #settling: Timer;
  #onDisconnect: (() => void) | undefined;

  /**
   * @param raiseLevel raises the level of the log messages that the client gets.
   * @param request the first one. It is not kept, because its text may be long.
   */
  constructor(
    context: Context,
    parked: ParkedCalls,
    memory: MemoryAccount,
    raiseLevel: (level: string) => void,
    round: LegacyReply,
    request: RequestMessage,
  ) {
    this.#context = context;
    this.#parked = parked;
    this.#settling = context.timers.add(() => this.#settle());
    this.memory = memory;
    this.#raiseLevel = raiseLevel;
    this.#asks = new OpenAsks(memory, earlyAnswersOf(request));
    this.#binding = round.declared === 0 ? "" : bindingOf(request);
    this.#round = this.#lastRound = round;
  }

  get serverInfo(): ServerInfo {
    return this.#lastRound.serverInfo;
  }

  get idText(): string {
    return this.#lastRound.idText;
  }

  get acceptedAtMs(): number {
    return this.#lastRound.acceptedAtMs;
  }

  get logLevel(): string | undefined {
    return this.#round?.logLevel;
  }

  get observed(): Reply["observed"] {
    return this.#lastRound.observed;
  }

  get isListening(): boolean {
    return this.#round?.isListening ?? false;
  }

  emit(body: string): boolean {
    return this.#round?.emit(body) ?? false;
  }

  keepAlive(): void {
    this.#round?.keepAlive();
  }

  respond(body: string, response?: ResponseMessage): void {
    this.#dropAsks();
    const missing = missingCapability(body, this.#missing);
    if (missing !== undefined) return this.fail(missing);
    if (this.#round !== undefined) return this.#finish((reply) => reply.respond(body, response));
    const memory = this.memory.reserve("requests", textMemoryBytes(body));
    if (memory === undefined) this.#parked.remove(this);
    else this.#outcome = { response: body, memory };
  }

  fail(error: SidecarError): void {
    this.#dropAsks();
    if (this.#round !== undefined) return this.#finish((reply) => reply.fail(error));
    if (KEPT_ERRORS.has(error.code)) this.#outcome = { response: error, memory: this.memory.hold("requests", 0) };
    else this.#parked.remove(this);
  }

  dismiss(): void {
    this.#dropAsks();
    this.#endRound()?.dismiss();
  }

  onDisconnect(listener: () => void): void {
    this.#onDisconnect = listener;
    this.#watch(this.#lastRound);
  }

  ask(ask: ServerAsk, call: AskedCall): void {
    this.#call = call;
    this.#asks.add(ask);
    this.#settleSoon();
  }

  canAnswer(request: RequestMessage): boolean {
    return isSubset(kindsOf(request), this.#lastRound.declared);
  }

  onRefused(request: RequestMessage): void {
    if (!this.canAnswer(request)) this.#missing |= offeredKinds(kindsOf(request));
  }

  withdraw(ask: ServerAsk): void {
    this.#asks.withdraw(ask);
  }

  /** True if this is a request for the same call as before. */
  isFor(request: RequestMessage): boolean {
    return this.#binding === bindingOf(request);
  }

  /** @returns the error if the queue of the server's stdin is too full for these answers. */
  roomError(answers: ReadonlyMap<string, string>): SidecarError | undefined {
    return this.#call?.roomError([...answers.values()].join(""));
  }

  /** Continues the call with the client's next request. Questions without a valid answer are asked again. */
  resume(round: LegacyReply, answers: ReadonlyMap<string, string>): void {
    this.#round = this.#lastRound = round;
    if (this.#outcome !== undefined) return this.#respondOutcome(this.#outcome.response);
    this.#watch(round);
    // The server has the call already.
    this.observed?.onSent(this.acceptedAtMs);
    this.#call?.resume(round.progressTokenText);
    if (round.logLevel !== undefined) this.#raiseLevel(round.logLevel);
    this.#missing |= this.#asks.answer(answers, round.declared);
    this.#settleSoon();
  }

  /** Ends a parked call, because its client has not come back. */
  expire(reason: string): void {
    this.#asks.expire();
    this.#outcome?.memory.release();
    if (this.#outcome === undefined) this.#call?.cancel(reason);
  }

  /** Shows the server that its questions are still open. */
  showProgress(): void {
    this.#asks.showProgress();
  }

  #watch(round: LegacyReply): void {
    round.onDisconnect(() => {
      if (this.#round !== round) return;
      this.#endRound();
      this.#onDisconnect?.();
      this.#dropAsks();
    });
  }

  #respondOutcome(outcome: string | SidecarError): void {
    this.#outcome?.memory.release();
    this.#finish((reply) => {
      const response = typeof outcome === "string" ? readMessage(outcome, "server") : outcome;
      if (response instanceof SidecarError) reply.fail(response);
      else if (response.kind === "response") reply.respond(responseToClient(response, reply.idText));
      else reply.fail(internalError(true));
    });
  }

  /** Ends the request of the client. If a defect prevents the response, it can still be ended with an error. */
  #finish(end: (reply: Reply) => void): void {
    if (this.#round !== undefined) end(this.#round);
    this.#endRound();
  }

  #dropAsks(): void {
    this.#asks.refuse("The call of this question has ended");
  }

  #endRound(): LegacyReply | undefined {
    this.#settling.clear();
    const round = this.#round;
    this.#round = undefined;
    return round;
  }

  #settleSoon(): void {
    if (this.#round === undefined || this.#asks.isEmpty) return;
    this.#settling.set(Math.min(this.#settling.atMs, this.#context.nowMs() + SETTLE_MS));
  }

  /** Asks the client. */
  #settle(): void {
    if (this.#round === undefined || this.#asks.isEmpty) return;
    const added = this.#parked.add(this);
    if ("refusal" in added) return this.#asks.refuse(added.refusal);
    const result = inputRequired(this.#asks.show(), this.serverInfo, added.state);
    const round = this.#endRound();
    this.#call?.park();
    round?.requireInput(result);
  }
}

const STATE_BYTES = 24;
/** The share of all parked calls that one client may have. */
const CLIENT_SHARE = 1 / 4;
/** The interval at which a server sees that its questions are still open. Its SDK gives up after 60 s without a sign. */
const PROGRESS_MS = 20_000;

/** The calls whose clients were asked and have not answered. A client finds its call by the state of its last result, which is valid once. */
export class ParkedCalls {
  readonly #context: Context;
  readonly #replica: string;
  readonly #maxPerClient: number;
  /** Each has a timer for its end, and for signs to its server until then. */
  readonly #byState = new Map<string, { readonly reply: AskingReply; readonly timer: Timer }>();
  #expired = 0;
  #refused = 0;

  /** @param replica names this process in states. */
  constructor(context: Context, replica: string) {
    this.#context = context;
    this.#replica = replica;
    const { maxParkedCalls, maxPrivateServers } = context.config;
    // Each server process of a client can wait for one answer at a time. One of them stays for other calls.
    this.#maxPerClient = Math.max(1, Math.min(Math.ceil(maxParkedCalls * CLIENT_SHARE), serversPerClient(maxPrivateServers) - 1));
    onDrain(context, "parked call", () => this.end("shutdown"));
  }

  /** `refused` counts the rounds of questions that were refused because too many calls were parked. */
  get status(): { readonly now: number; readonly expired: number; readonly refused: number } {
    return { now: this.#byState.size, expired: this.#expired, refused: this.#refused };
  }

  /** True if a client has a parked call. */
  hasAnyOf(holder: MemoryHolder): boolean {
    return this.#byState.values().some(({ reply }) => reply.memory.holder === holder);
  }

  /** @returns the state that the next request of the client must have; or the reason why the call cannot wait. */
  add(reply: AskingReply): { readonly state: string } | { readonly refusal: string } {
    const { config, nowMs, timers, draining } = this.#context;
    const { maxParkedCalls: maxParked, parkTimeoutMs: timeoutMs } = config;
    const own = this.#byState.values().filter((each) => each.reply.memory.holder === reply.memory.holder);
    if (draining.aborted) return { refusal: "The sidecar is shutting down" };
    if (this.#byState.size >= maxParked || own.toArray().length >= this.#maxPerClient) {
      this.#refused++;
      return { refusal: `Too many calls wait for answers: ${maxParked} in all, ${this.#maxPerClient} of one client` };
    }
    const state = `${this.#replica}.${randomBytes(STATE_BYTES).toString("base64url")}`;
    const expiresAtMs = nowMs() + timeoutMs;
    const timer = timers.add((atMs) => {
      if (atMs >= expiresAtMs) {
        this.#expired++;
        return this.#end(state, reply, "its client has not answered in time");
      }
      timer.set(Math.min(expiresAtMs, atMs + PROGRESS_MS));
      reply.showProgress();
    });
    timer.set(Math.min(expiresAtMs, nowMs() + PROGRESS_MS));
    this.#byState.set(state, { reply, timer });
    return { state };
  }

  remove(reply: AskingReply): void {
    for (const [state, parked] of this.#byState) if (parked.reply === reply) this.#forget(state);
  }

  /** Returns the parked call of a request with a state; the error if there is none. Undefined for a request without one. */
  find(request: RequestMessage, holder: MemoryHolder): AskingReply | SidecarError | undefined {
    const { text, outline } = request;
    const span = outline.span(Slot.repeatedState);
    if (span === undefined) return undefined;
    const state = text[span.start] === '"' ? decodeString(text, span.start, span.end) : "";
    const reply = this.#byState.get(state)?.reply;
    return reply?.memory.holder === holder && reply.isFor(request) ? reply : this.#unknownState(state);
  }

  /** Ends the calls of a holder at the server; all by default. */
  end(reason: string, holder?: MemoryHolder): void {
    for (const [state, { reply }] of this.#byState) {
      if (holder === undefined || reply.memory.holder === holder) this.#end(state, reply, reason);
    }
  }

  #unknownState(state: string): SidecarError {
    const replica = this.#replica;
    const [, other = replica] = /^([0-9a-f]{8})\./.exec(state) ?? [];
    const cause =
      other === replica
        ? "It was used before, or is of another request; or the call has ended, because of PARK_TIMEOUT_MS or of a restart of the server."
        : `Another replica has it (${other}; this one is ${replica}), or the sidecar has restarted: let a balancer send the requests of a client to one replica.`;
    const message = `This requestState belongs to no call of this client that waits for its answer here. ${cause} The call may have taken effect; check before you start it again.`;
    return new SidecarError("REQUEST_STATE_INVALID", message, { retrySafe: false });
  }

  #end(state: string, reply: AskingReply, reason: string): void {
    this.#forget(state);
    this.#context.defects.guard("question", () => reply.expire(reason));
  }

  #forget(state: string): void {
    this.#byState.get(state)?.timer.clear();
    this.#byState.delete(state);
  }
}
