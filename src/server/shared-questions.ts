import { isSubset, offeredKinds } from "../mcp/capabilities.ts";
import { JsonRpcErrorCode } from "../mcp/errors.ts";
import type { RequestMessage } from "../mcp/message.ts";
import { embeddedText } from "../mcp/questions.ts";
import { Timer } from "../timers.ts";
import { AskingCall } from "./asking-calls.ts";
import type { Call, ClientCall } from "./call.ts";
import type { Lane } from "./lane.ts";
import { type Question, Questions } from "./questions.ts";

/** The maximum number of questions of one server that are not answered. */
const MAX_QUESTIONS = 64;
/** The length of the questions whose call is not known, in UTF-16 units. They count for no client yet. */
const MAX_WAITING_LENGTH = 1024 * 1024;
/** The time in which all calls but one must end, so that the question of a server can be assigned to a call. */
const MAX_WAIT_MS = 5000;
/** The time in which a call must end after its question was refused, before the next question is. */
const NEXT_REFUSAL_MS = 1000;

const NO_CALL = "The question belongs to no call in flight";
const AMBIGUOUS = "The question cannot be assigned to a call: several are in flight, or one was cancelled";

/**
 * The questions of a server that may ask its clients, all of one principal. A question does not name its call. It belongs to the only call in
 * flight. If there are several, no more are sent until one is left, since the call that asks cannot end.
 */
export class SharedQuestions {
  /** The number of questions that could not be assigned. */
  unattributed = 0;
  readonly questions: Questions;
  readonly #lane: Lane;
  readonly #onChanged: () => void;
  /** True while a ping shows if the server has read a cancellation. */
  #isPinged = false;
  /** The time at which the newest question is refused that cannot be assigned. */
  readonly #refusal: Timer;

  /** @param onChanged called when the server has become free for other calls, or no longer is. */
  constructor(lane: Lane, onChanged: () => void) {
    [this.#lane, this.#onChanged] = [lane, onChanged];
    this.questions = new Questions(lane, MAX_QUESTIONS);
    this.questions.onClosed = () => this.#assign();
    this.#refusal = new Timer(lane.context.timers, (nowMs) => this.#refuseNewest(nowMs));
    lane.calls.onChanged = (call) => this.#onCallChanged(call);
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
    this.#assign();
  }

  onReady(): void {
    this.#assign();
  }

  onLost(): void {
    this.#refusal.clear();
    // The queue opens for the next generation.
    this.questions.closeAll();
  }

  #refuseNewest(nowMs: number): void {
    this.#refusal.set(nowMs + NEXT_REFUSAL_MS);
    const newest = this.questions.about(undefined).at(-1);
    if (newest === undefined) this.#assign();
    else this.#refuse(newest, AMBIGUOUS);
  }

  #onCallChanged(call: Call): void {
    const { calls } = this.#lane;
    if (call.state === "ended" && calls.hasUnreadAbandoned) {
      // A question may be about a call that was given up, until the server has read that.
      for (const question of this.questions.about(undefined)) this.#refuse(question, AMBIGUOUS);
      if (!this.#isPinged) {
        this.#isPinged = true;
        calls.ask("ping", {}, () => (this.#isPinged = false));
      }
    }
    if (call.state === "ended") {
      const reason = "The call of this question has ended";
      for (const question of this.questions.about(call)) this.questions.fail(question, JsonRpcErrorCode.InvalidRequest, reason);
    }
    this.#assign();
  }

  /** Assigns questions to the only call in flight, or waits until there is only one. */
  #assign(): void {
    const { calls, context } = this.#lane;
    const waiting = this.questions.about(undefined);
    const owner = waiting.length === 0 ? undefined : this.#findOwner();
    if (owner === "waits") this.#refusal.set(Math.min(this.#refusal.atMs, context.nowMs() + MAX_WAIT_MS));
    else {
      this.#refusal.clear();
      for (const question of waiting) {
        // The answer to another question may have assigned it meanwhile.
        if (!this.questions.has(question.id) || question.call !== undefined) continue;
        if (owner === undefined) this.#refuse(question, calls.ofClients.length === 0 ? NO_CALL : AMBIGUOUS);
        else this.#pass(question, owner);
      }
    }
    const isFree = this.questions.size === 0 && !calls.values().some(({ state }) => state === "parked");
    if (isFree !== calls.queue.blocks.has("question")) return;
    if (isFree) calls.queue.unblock("question");
    else calls.queue.blocks.add("question");
    this.#onChanged();
  }

  /** Returns the call that asks; "waits" if several calls could be it; undefined if it cannot be found, or if no client can be asked. */
  #findOwner(): ClientCall | "waits" | undefined {
    const { calls } = this.#lane;
    const inFlight = calls.ofClients;
    const [first] = inFlight;
    if (first === undefined || calls.hasUnreadAbandoned) return undefined;
    if (!inFlight.some(({ reply }) => reply.askable instanceof AskingCall)) return undefined;
    return inFlight.length > 1 ? "waits" : first;
  }

  #pass(question: Question, call: ClientCall): void {
    const { askable } = call.reply;
    if (!(askable instanceof AskingCall && isSubset(question.kinds, askable.declared))) return this.#refuseUndeclared(question);
    call.mustNotRestart = true;
    askable.ask(question, call);
  }

  /** A client that has not declared a question cannot be asked, so the call goes on without the answer. */
  #isUndeclared({ kinds }: Question): boolean {
    const calls = this.#lane.calls.ofClients;
    return calls.length > 0 && calls.every(({ reply: { askable } }) => askable === undefined || !isSubset(kinds, askable.declared));
  }

  #refuseUndeclared(question: Question): void {
    const { calls, dropped } = this.#lane;
    const [only, another] = calls.ofClients;
    if (another === undefined && only?.reply.askable !== undefined) only.reply.askable.missing |= offeredKinds(question.kinds);
    const reason = `${question.method} is not available: the client of this call has not declared it`;
    dropped.question(question.method, reason);
    this.questions.fail(question, JsonRpcErrorCode.MethodNotFound, reason);
  }

  #refuse(question: Question, reason: string): void {
    this.unattributed++;
    this.#lane.dropped.question(question.method, reason);
    this.questions.fail(question, JsonRpcErrorCode.ServerError, reason);
  }
}
