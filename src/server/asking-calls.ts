import { createHash, randomBytes } from "node:crypto";
import { type Context, onDrain } from "../context.ts";
import { decodeString } from "../json/text.ts";
import { readValue } from "../json/value.ts";
import { type AskKinds, AskMethod, isSubset, offeredKinds } from "../mcp/capabilities.ts";
import { JsonRpcErrorCode, SidecarError } from "../mcp/errors.ts";
import { readMessage, type RequestMessage, Slot } from "../mcp/message.ts";
import { chosenKey, earlyAnswersOf, embeddedText, isAnswer, keyOf } from "../mcp/questions.ts";
import { responseToClient } from "../mcp/rewrite.ts";
import { inputRequired, serverInfoOf } from "../mcp/translate.ts";
import { HOLDER_SHARE, type MemoryAccount, type MemoryHolder, type Reservation, serversPerClient, textMemoryBytes } from "../memory.ts";
import { type Askable, Reply, type ReplyTarget, type Transform } from "../session/reply.ts";
import { Timer } from "../timers.ts";
import type { Call, ClientCall } from "./call.ts";
import { internalError } from "./failures.ts";
import type { Calls } from "./calls.ts";
import { type Question, Questions } from "./questions.ts";
import type { StatelessRequest } from "./request-check.ts";

/** Further questions join the first one: a server that asks several at once sends them together. */
const SETTLE_MS = 40;
/** The SDK of a server gives up after 60 s without progress. */
const PROGRESS_MS = 20_000;

/** The server has answered these calls. After any other error, the call is gone. */
const KEPT_ERRORS: ReadonlySet<string> = new Set(["UPSTREAM_RESPONSE_TOO_LARGE", "UPSTREAM_INVALID_RESPONSE", "INTERNAL_ERROR"]);

/**
 * A call that may need several requests of its client: each result `input_required` ends one, and the answers come with the next (MCP
 * 2026-07-28, basic/utilities/mrtr). The server sees one call.
 *
 * Between two requests the call is parked, with a reply that keeps the response here.
 */
export class AskingCall implements Askable, ReplyTarget {
  readonly memory: MemoryAccount;
  declared: AskKinds;
  missing: AskKinds = 0;
  /** Set while the call is parked: the client's next request repeats it. Only `ParkedCalls` changes it. */
  state: string | undefined;
  /** When the client is asked; while the call is parked, the next sign to the server, or the end. */
  readonly timer: Timer;
  readonly #questions: Questions;
  readonly #parked: ParkedCalls;
  readonly #binding: string;
  /** Answers of the client's first request, by key. Each is used once. */
  readonly #early: Map<string, string>;
  #call: ClientCall | undefined;
  #transforms: readonly Transform[] = [];
  #onDisconnect: (() => void) | undefined;
  #expiresAtMs = 0;
  #outcome: { readonly response: string | SidecarError; readonly memory: Reservation } | undefined;

  /** The first request is not kept, because its text may be long. */
  constructor(questions: Questions, parked: ParkedCalls, { request, envelope, client }: StatelessRequest) {
    [this.#questions, this.#parked, this.memory] = [questions, parked, client.memory];
    this.declared = envelope.declared;
    this.#early = new Map(earlyAnswersOf(request));
    this.#binding = bindingOf(request);
    this.timer = new Timer(questions.calls.context, (nowMs) => (this.state === undefined ? this.#settle() : this.#onParked(nowMs)));
  }

  get calls(): Calls {
    return this.#questions.calls;
  }

  ask(question: Question, call: ClientCall): void {
    const id = readValue(question.idText);
    question.key = keyOf(id, new Set(this.#questions.about(call).map(({ key }) => key)));
    question.call = this.#call = call;
    question.memory = this.memory.reserve("requests", textMemoryBytes(question.text));
    if (question.memory === undefined) return this.#refuse(question, "The sidecar has no memory left for this question");
    // Another key could be that of another question in each call.
    const early = question.key === chosenKey(id) ? this.#early.get(question.key) : undefined;
    this.#early.delete(question.key);
    if (early !== undefined && isAnswer(question.method, early)) this.#questions.answer(question, "result", early);
    else if (this.state === undefined) this.#settleSoon();
  }

  finish(outcome: string | SidecarError | undefined): undefined {
    let memory: Reservation | undefined;
    if (typeof outcome === "string") memory = this.memory.reserve("requests", textMemoryBytes(outcome));
    else if (outcome !== undefined && KEPT_ERRORS.has(outcome.code)) memory = this.memory.hold("requests", 0);
    if (outcome === undefined || memory === undefined) this.#parked.remove(this);
    else this.#outcome = { response: outcome, memory };
  }

  isFor(request: RequestMessage): boolean {
    return this.#binding === bindingOf(request);
  }

  /** Questions without a valid answer are asked again. */
  resume({ reply, request, envelope }: StatelessRequest, answers: ReadonlyMap<string, string>): void {
    const call = this.#call;
    reply.askable = this;
    this.declared = envelope.declared;
    reply.transforms.push(...this.#transforms);
    if (call === undefined || this.#outcome !== undefined) return this.#respondOutcome(reply);
    reply.onDisconnect = this.#onDisconnect;
    // The server has the call already.
    if (reply.record !== undefined) reply.record.sentAtMs = reply.acceptedAtMs;
    call.reply = reply;
    call.progressTokenText = request.outline.copyAt(Slot.metaProgressToken);
    this.calls.resume(call);
    for (const question of this.#questions.about(call)) {
      const answer = question.isShown ? answers.get(question.key) : undefined;
      if (answer !== undefined && isAnswer(question.method, answer)) this.#questions.answer(question, "result", answer);
      else if (!isSubset(question.kinds, this.declared)) {
        this.missing |= question.kinds;
        this.#refuse(question, "The client no longer declares this capability");
      }
    }
    this.#settleSoon();
  }

  /** Answers in place of a client that has not come back. */
  expire(reason: string): void {
    this.#outcome?.memory.release();
    const call = this.#call;
    if (call === undefined || this.#outcome !== undefined) return;
    for (const question of this.#questions.about(call)) {
      // An elicitation can be cancelled, a sampling cannot.
      if (question.method === AskMethod.elicitation) this.#questions.answer(question, "result", '{"action":"cancel"}');
      else this.#questions.fail(question, -1, "The client did not answer in time");
    }
    this.calls.giveUp(call, reason, "unread");
  }

  #respondOutcome(reply: Reply): void {
    this.#outcome?.memory.release();
    const outcome = this.#outcome?.response ?? internalError(true);
    if (outcome instanceof SidecarError) return reply.fail(outcome);
    const response = readMessage(outcome);
    if (response.kind === "response") reply.respond(responseToClient(response, reply.idText));
    else reply.fail(internalError(true));
  }

  #refuse(question: Question, reason: string): void {
    this.#questions.fail(question, JsonRpcErrorCode.InvalidRequest, reason);
  }

  #settleSoon(): void {
    this.timer.set(Math.min(this.timer.atMs, this.calls.context.nowMs() + SETTLE_MS));
  }

  #settle(): void {
    const call = this.#call;
    const { calls } = this;
    const { context } = calls;
    const questions = call === undefined ? [] : this.#questions.about(call);
    if (call === undefined || questions.length === 0) return;
    const state = this.#parked.add(this);
    if (typeof state !== "string") {
      for (const question of questions) this.#refuse(question, state.refusal);
      return;
    }
    const { config, nowMs } = context;
    this.#expiresAtMs = nowMs() + config.parkTimeoutMs;
    this.timer.set(Math.min(this.#expiresAtMs, nowMs() + PROGRESS_MS));
    for (const question of questions) question.isShown = true;
    const texts = questions.map(({ key, text }) => `${JSON.stringify(key)}:${text}`);
    const result = inputRequired(texts, serverInfoOf(calls.lastHandshake?.resultText ?? "{}"), state);
    const { reply } = call;
    this.#transforms = reply.transforms.splice(0);
    this.#onDisconnect = reply.onDisconnect;
    call.reply = new Reply(context, reply.idText, reply.acceptedAtMs, this);
    call.reply.askable = this;
    calls.park(call);
    reply.answer("result", result);
  }

  #onParked(nowMs: number): void {
    if (nowMs >= this.#expiresAtMs) return this.#parked.expire(this);
    this.timer.set(Math.min(this.#expiresAtMs, nowMs + PROGRESS_MS));
    for (const question of this.#questions.about(this.#call)) this.#questions.showProgress(question);
  }
}

function bindingOf({ method, text, outline }: RequestMessage): string {
  const spans = [Slot.toolName, Slot.uri, Slot.arguments].map((slot) => outline.span(slot));
  const parts = spans.map((span) => span && text.slice(span.start, span.end));
  return createHash("sha256")
    .update(JSON.stringify([method, ...parts]))
    .digest("base64");
}

const STATE_BYTES = 24;

/** The next request of a client finds its parked call by the `requestState` of its last result, once. */
export class ParkedCalls {
  readonly #context: Context;
  readonly #replica: string;
  readonly #maxPerClient: number;
  readonly #byState = new Map<string, AskingCall>();
  #expired = 0;
  #refused = 0;

  constructor(context: Context, replica: string) {
    this.#context = context;
    this.#replica = replica;
    const { maxParkedCalls, maxPrivateServers } = context.config;
    // Each server process of a client can wait for one answer at a time. One of them stays for other calls.
    this.#maxPerClient = Math.max(1, Math.min(Math.ceil(maxParkedCalls * HOLDER_SHARE), serversPerClient(maxPrivateServers) - 1));
    onDrain(context, "parked call", () => this.end("shutdown"));
  }

  /** `refused` counts rounds of questions that too many parked calls have prevented. */
  get status() {
    return { now: this.#byState.size, expired: this.#expired, refused: this.#refused };
  }

  hasAnyOf(holder: MemoryHolder): boolean {
    return this.#of(holder).length > 0;
  }

  add(call: AskingCall): string | { readonly refusal: string } {
    const { config, draining } = this.#context;
    if (draining.aborted) return { refusal: "The sidecar is shutting down" };
    if (this.#byState.size >= config.maxParkedCalls || this.#of(call.memory.holder).length >= this.#maxPerClient) {
      this.#refused++;
      return { refusal: `Too many calls wait for answers: ${config.maxParkedCalls} in all, ${this.#maxPerClient} of one client` };
    }
    call.state = `${this.#replica}.${randomBytes(STATE_BYTES).toString("base64url")}`;
    this.#byState.set(call.state, call);
    return call.state;
  }

  remove(call: AskingCall): void {
    call.timer.clear();
    if (call.state !== undefined) this.#byState.delete(call.state);
    call.state = undefined;
  }

  expire(call: AskingCall): void {
    this.#expired++;
    this.#end(call, "its client has not answered in time");
  }

  /** @returns the error for an unknown state; undefined for a request without one. */
  find(request: RequestMessage, holder: MemoryHolder): AskingCall | SidecarError | undefined {
    const { text, outline } = request;
    const span = outline.span(Slot.repeatedState);
    if (span === undefined) return undefined;
    const state = text[span.start] === '"' ? decodeString(text, span.start, span.end) : "";
    const call = this.#byState.get(state);
    return call?.memory.holder === holder && call.isFor(request) ? call : this.#unknownState(state);
  }

  end(reason: string, holder?: MemoryHolder): void {
    for (const call of holder === undefined ? this.#byState.values() : this.#of(holder)) this.#end(call, reason);
  }

  #of(holder: MemoryHolder): AskingCall[] {
    return [...this.#byState.values()].filter((call) => call.memory.holder === holder);
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

  #end(call: AskingCall, reason: string): void {
    this.remove(call);
    this.#context.defects.guard("question", () => call.expire(reason));
  }
}

const MAX_QUESTIONS = 64;
/** The length of all questions whose call is not known, in UTF-16 units. They count for no client yet. */
const MAX_WAITING_LENGTH = 1024 * 1024;
/** All calls but one must end in this time, so that a question can be assigned. */
const MAX_WAIT_MS = 5000;
/** Between refusals: the call whose question was refused may end. */
const NEXT_REFUSAL_MS = 1000;

const NO_CALL = "The question belongs to no call in flight";
const AMBIGUOUS = "The question cannot be assigned to a call: several are in flight, or one was cancelled";

/**
 * The questions of a server that may ask its clients, all of one principal. A question belongs to the only call in flight. If there are
 * several, no more are sent until one is left, since the call that asks cannot end.
 */
export class SharedQuestions {
  readonly questions: Questions;
  readonly #onChanged: () => void;
  #isPinged = false;
  readonly #refusal: Timer;

  constructor(calls: Calls, onChanged: () => void) {
    this.#onChanged = onChanged;
    this.questions = new Questions(calls, MAX_QUESTIONS);
    this.questions.onClosed = () => this.assign();
    this.#refusal = new Timer(calls.context, (nowMs) => this.#refuseNewest(nowMs));
    calls.onChanged.push((call) => this.#onCallChanged(call));
  }

  onServerRequest(request: RequestMessage): void {
    const length = this.questions.about(undefined).reduce((sum, { text }) => sum + text.length, 0);
    if (length > MAX_WAITING_LENGTH) {
      return this.questions.refuse(request, JsonRpcErrorCode.ServerError, "Too many questions wait for their calls");
    }
    const question = this.questions.open(request);
    if (question === undefined) return;
    if (this.#isUndeclared(question)) return this.#refuseUndeclared(question);
    question.text = embeddedText(request);
    this.assign();
  }

  onLost(): void {
    this.#refusal.clear();
    this.questions.closeAll();
  }

  #refuseNewest(nowMs: number): void {
    this.#refusal.set(nowMs + NEXT_REFUSAL_MS);
    const newest = this.questions.about(undefined).at(-1);
    if (newest === undefined) this.assign();
    else this.#refuse(newest, AMBIGUOUS);
  }

  #onCallChanged(call: Call): void {
    const { calls } = this.questions;
    if (call.state === "ended") {
      // A question may be about an abandoned call until the server has read its cancellation. The response to a ping shows that.
      if (calls.sent.hasUnreadAbandoned && !this.#isPinged) {
        this.#isPinged = true;
        calls.requestOwn("ping", {}, () => (this.#isPinged = false));
      }
      const reason = "The call of this question has ended";
      for (const question of this.questions.about(call)) this.questions.fail(question, JsonRpcErrorCode.InvalidRequest, reason);
    }
    this.assign();
  }

  /** Gives waiting questions to the only call in flight, or refuses them. Must be called after each change. */
  assign(): void {
    const { calls } = this.questions;
    const waiting = this.questions.about(undefined);
    const owner = waiting.length === 0 ? undefined : this.#findOwner();
    if (owner === "waits") this.#refusal.set(Math.min(this.#refusal.atMs, calls.context.nowMs() + MAX_WAIT_MS));
    else {
      this.#refusal.clear();
      for (const question of waiting) {
        // The answer to another question may have assigned it meanwhile.
        if (!this.questions.has(question.id) || question.call !== undefined) continue;
        if (owner === undefined) this.#refuse(question, calls.ofClients.length > 0 || calls.sent.hasUnreadAbandoned ? AMBIGUOUS : NO_CALL);
        else this.#pass(question, owner);
      }
    }
    const isFree = this.questions.size === 0 && !calls.values().some(({ state }) => state === "parked");
    if (isFree !== calls.queue.blocks.has("question")) return;
    if (isFree) calls.queue.unblock("question");
    else calls.queue.blocks.add("question");
    this.#onChanged();
  }

  /** "waits" if several calls could have asked; undefined if no client can be asked. */
  #findOwner(): ClientCall | "waits" | undefined {
    const { calls } = this.questions;
    const inFlight = calls.ofClients;
    const [first] = inFlight;
    if (first === undefined || calls.sent.hasUnreadAbandoned) return undefined;
    if (!inFlight.some(({ reply }) => reply.askable instanceof AskingCall)) return undefined;
    return inFlight.length > 1 ? "waits" : first;
  }

  #pass(question: Question, call: ClientCall): void {
    const { askable } = call.reply;
    if (!(askable instanceof AskingCall && isSubset(question.kinds, askable.declared))) return this.#refuseUndeclared(question);
    call.mustNotRestart = true;
    askable.ask(question, call);
  }

  #isUndeclared({ kinds }: Question): boolean {
    const calls = this.questions.calls.ofClients;
    return calls.length > 0 && calls.every(({ reply: { askable } }) => askable === undefined || !isSubset(kinds, askable.declared));
  }

  #refuseUndeclared(question: Question): void {
    const { calls } = this.questions;
    const [only, another] = calls.ofClients;
    if (another === undefined && only?.reply.askable !== undefined) only.reply.askable.missing |= offeredKinds(question.kinds);
    const reason = `${question.method} is not available: the client of this call has not declared it`;
    calls.dropped.question(question.method, reason);
    this.questions.fail(question, JsonRpcErrorCode.MethodNotFound, reason);
  }

  #refuse(question: Question, reason: string): void {
    const { context, dropped } = this.questions.calls;
    context.counters.unattributed++;
    dropped.question(question.method, reason);
    this.questions.fail(question, JsonRpcErrorCode.ServerError, reason);
  }
}
