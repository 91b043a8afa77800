import type { SidecarError } from "../../errors.ts";
import { findMembers, stringOf } from "../../json/find.ts";
import { shorten } from "../../json/text.ts";
import type { ClientCall } from "../../lane/calls/call.ts";
import { PendingRequests } from "../../lane/calls/pending-requests.ts";
import { answerElsewhere, outOfMemory, responseOutOfMemory } from "../../lane/failures.ts";
import { MAX_RENEWED_TIMES } from "../../lane/lane-limits.ts";
import { cancellation } from "../../lane/routing/forwarded-requests.ts";
import type { RoutingAccess } from "../../lane/routing/routing.ts";
import type { Reservation } from "../../memory/memory-budget.ts";
import { textMemoryBytes } from "../../memory/memory-size.ts";
import { readMessage, type ResponseMessage, Slot } from "../../protocol/message.ts";
import { messageToServer, requestToClient } from "../../protocol/rewrite.ts";
import type { Caller } from "../../sessions/caller.ts";
import { AskMethod } from "../asks/ask-kinds.ts";
import {
  checkDeclared,
  type InputRequired,
  invalidQuestion,
  isInputRequired,
  type Question,
  questionFailed,
  readInputRequired,
} from "./input-required.ts";
import { SessionExchange } from "./session-exchange.ts";

/** The maximum number of results with questions of one call. */
const MAX_QUESTION_ROUNDS = 8;
/** The pause before a request is repeated whose server asks nothing. */
const REPEAT_DELAY_MS = 250;

const NEEDS_STREAM = "Clients receive questions on the event stream of the call, or of a GET.";

const CANCELLED = '{"action":"cancel"}';

/** A call between two requests to the server. */
interface Round {
  readonly call: ClientCall;
  readonly exchange: SessionExchange;
  readonly stateText: string | undefined;
  /** The ids of the questions that are not answered. */
  readonly open: Set<number>;
  /** The answers as members of `inputResponses`. */
  readonly answers: string[];
  readonly memory: Reservation;
  /** The time of the next request if there are no questions. */
  readonly repeatAtMs: number;
}

/** The end of a call whose question has no answer. */
interface Failure {
  /** For the log. */
  readonly reason: string;
  readonly error: SidecarError;
}

interface OpenQuestion {
  /** The id for the client. */
  readonly id: number;
  readonly round: Round;
  readonly keyText: string;
  readonly method: string;
  readonly deadlineMs: number;
}

/**
 * The questions of a server without sessions for clients of sessions. The server ends a request by a question, and gets the answer in the
 * next one (MCP 2026-07-28, basic/utilities/mrtr). The client gets an ordinary request on the stream of its call, and sees one call.
 *
 * Between two requests the call is suspended: it takes no slot, and outlives the server.
 */
export class SessionQuestions {
  readonly #access: RoutingAccess;
  readonly #questions = new PendingRequests<OpenQuestion>();
  readonly #waiting = new Set<Round>();

  constructor(access: RoutingAccess) {
    this.#access = access;
  }

  /** See `Routing.onUnfinished`. */
  onResponse(call: ClientCall, response: ResponseMessage): boolean {
    const { exchange } = call;
    if (!(exchange instanceof SessionExchange) || !isInputRequired(response)) return false;
    const asked = readInputRequired(response.text, response.outline.start(Slot.result));
    const isInvalid = typeof asked === "string";
    this.#access.dispatch.calls.suspend(call, !isInvalid && asked.questions.length > 0);
    const failure = isInvalid ? { reason: "invalid question", error: invalidQuestion(asked) } : this.#begin(call, exchange, asked);
    if (failure !== undefined) this.#fail(call, failure);
    return true;
  }

  /**
   * Handles the response of a client.
   *
   * @param isAskable true if the client has declared that it answers questions, so that another replica may have asked it.
   * @returns the error if it is rejected: the question stays open.
   */
  onAnswer(caller: Caller, response: ResponseMessage, isAskable: boolean): SidecarError | undefined {
    const question = this.#questions.get(response.id);
    if (question === undefined || question.round.call.caller !== caller) {
      return isAskable && !this.#questions.hasMinted(response.id) ? answerElsewhere() : undefined;
    }
    const { round, method } = question;
    const text = answerText(response);
    if (!round.memory.tryGrow(text === undefined ? 0 : textMemoryBytes(text))) return outOfMemory();
    if (text !== undefined || method === AskMethod.elicitation) this.#answer(question, text ?? CANCELLED);
    else {
      this.#take(question);
      const message = `The client answered ${method} of the MCP server with an error: ${errorText(response)}.`;
      this.#fail(round.call, failed("question answered with an error", message));
    }
    return undefined;
  }

  /** @returns the next deadline, or Infinity. */
  expire(nowMs: number): number {
    let nextMs = Number.POSITIVE_INFINITY;
    for (const round of this.#waiting) {
      if (round.repeatAtMs > nowMs) nextMs = Math.min(nextMs, round.repeatAtMs);
      else this.#repeat(round);
    }
    for (const question of this.#questions.values()) {
      if (question.deadlineMs > nowMs) nextMs = Math.min(nextMs, question.deadlineMs);
      else this.#onOverdue(question);
    }
    return nextMs;
  }

  /** @returns the failure if the client is not asked. */
  #begin(call: ClientCall, exchange: SessionExchange, { questions, stateText }: InputRequired): Failure | undefined {
    const { dispatch, nowMs, requestTimeoutMs } = this.#access;
    const undeclared = checkDeclared(questions, exchange.declared);
    if (undeclared !== undefined) return { reason: "question of an undeclared kind", error: undeclared };
    if (questions.length > 0 && ++exchange.questionRounds > MAX_QUESTION_ROUNDS) {
      return failed("too many questions", `The MCP server asked more than ${MAX_QUESTION_ROUNDS} times during one call.`);
    }
    const kept = questions.reduce((bytes, { keyText }) => bytes + textMemoryBytes(keyText), textMemoryBytes(stateText ?? ""));
    const memory = call.caller.memory.reserve("requests", kept);
    if (memory === undefined) return { reason: "out of memory", error: responseOutOfMemory(call.method) };
    const repeatAtMs = questions.length > 0 ? Number.POSITIVE_INFINITY : nowMs() + REPEAT_DELAY_MS;
    const round: Round = { call, exchange, stateText, open: new Set(), answers: [], memory, repeatAtMs };
    exchange.onEnded = () => this.#cancel(round);
    this.#waiting.add(round);
    if (questions.length === 0) {
      dispatch.watch(repeatAtMs);
      return undefined;
    }
    const deadlineMs = nowMs() + requestTimeoutMs * MAX_RENEWED_TIMES;
    dispatch.watch(deadlineMs);
    for (const [id, { request }] of questions.map((question) => this.#open(round, question, deadlineMs))) {
      // The client may have disconnected while it got the others.
      if (round.open.has(id)) this.#emit(round, requestToClient(request, id));
    }
    return undefined;
  }

  #open(round: Round, question: Question, deadlineMs: number): [id: number, question: Question] {
    const { keyText, request } = question;
    const id = this.#questions.mintId();
    this.#questions.add(id, { id, round, keyText, method: request.method, deadlineMs });
    round.open.add(id);
    return [id, question];
  }

  #take({ id, round }: OpenQuestion): void {
    this.#questions.take(id);
    round.open.delete(id);
  }

  #answer(question: OpenQuestion, text: string): void {
    const { round, keyText } = question;
    this.#take(question);
    round.answers.push(`${keyText}:${text}`);
    if (round.open.size === 0) this.#repeat(round);
  }

  #onOverdue(question: OpenQuestion): void {
    const { id, round, method } = question;
    if (method === AskMethod.elicitation) {
      this.#emit(round, cancellation(id, "timeout"));
      this.#answer(question, CANCELLED);
    } else this.#fail(round.call, failed("question not answered in time", `The client did not answer ${method} in time. ${NEEDS_STREAM}`));
  }

  /** Sends the request again, with the answers. */
  #repeat(round: Round): void {
    const { call, exchange, stateText, answers } = round;
    const members = answers.length === 0 ? [] : [`"inputResponses":{${answers.join(",")}}`];
    if (stateText !== undefined) members.push(`"requestState":${stateText}`);
    this.#end(round);
    this.#access.dispatch.repeat(call, exchange.requestWith(members.join(",")));
  }

  #fail(call: ClientCall, { reason, error }: Failure): void {
    this.#access.dispatch.calls.giveUp(call, reason, error);
  }

  /** Tells the client not to answer any more, because the call has ended. */
  #cancel(round: Round): void {
    const ids = [...round.open];
    this.#end(round);
    for (const id of ids) this.#emit(round, cancellation(id, "the call has ended"));
  }

  #end(round: Round): void {
    this.#waiting.delete(round);
    round.exchange.onEnded = undefined;
    round.memory.release();
    for (const id of round.open) this.#questions.take(id);
    round.open.clear();
  }

  #emit({ call, exchange }: Round, text: string): void {
    if (!exchange.ask(text)) call.caller.deliver(text);
  }
}

/** Returns the JSON text of a client's answer; undefined for an error, or a result that is not an object. */
function answerText(response: ResponseMessage): string | undefined {
  const normal = readMessage(messageToServer(response));
  if (normal.kind !== "response" || normal.isError || !normal.outline.isObject(Slot.result)) return undefined;
  return normal.outline.copyAt(Slot.result);
}

function errorText({ text, outline }: ResponseMessage): string {
  const error = outline.isObject(Slot.error) ? findMembers(text, outline.start(Slot.error), ["message"]).spans[0] : undefined;
  return shorten(stringOf(text, error) ?? "no message");
}

function failed(reason: string, description: string): Failure {
  return { reason, error: questionFailed(description) };
}
