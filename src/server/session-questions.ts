import { randomUUID } from "node:crypto";
import { findMembers, stringOf } from "../json/find.ts";
import { shorten } from "../json/text.ts";
import { AskMethod } from "../mcp/capabilities.ts";
import type { SidecarError } from "../mcp/errors.ts";
import { readMessage, type ResponseMessage, Slot } from "../mcp/message.ts";
import {
  checkDeclared,
  type InputRequired,
  invalidQuestion,
  questionFailed,
  readInputRequired,
  withElicitationId,
} from "../mcp/questions.ts";
import { messageToServer, requestToClient } from "../mcp/rewrite.ts";
import { type Reservation, textMemoryBytes } from "../memory.ts";
import type { Caller } from "../session/session.ts";
import { Timer } from "../timers.ts";
import { type ClientCall, MAX_RENEWED_TIMES, RequestIds } from "./call.ts";
import { answerElsewhere, internalError, outOfMemory, responseOutOfMemory } from "./failures.ts";
import type { Lane } from "./lane.ts";
import type { RepeatableRequest } from "./modern-sessions.ts";
import { cancellation } from "./routing.ts";

/** The maximum number of results with questions of one call. */
const MAX_QUESTION_ROUNDS = 8;
/** The pause before a request is repeated whose server asks nothing. */
const REPEAT_DELAY_MS = 250;

const NEEDS_STREAM = "Clients receive questions on the event stream of the call, or of a GET.";

const CANCELLED = '{"action":"cancel"}';

/** A call between two requests to the server. */
interface Round {
  readonly call: ClientCall;
  readonly request: RepeatableRequest;
  readonly stateText: string | undefined;
  /** The ids of the questions that are not answered. */
  readonly open: Set<number>;
  /** The answers as members of `inputResponses`. */
  readonly answers: string[];
  readonly memory: Reservation;
  /** The time of the next request if there are no questions; otherwise the end of the time for the answers. */
  readonly timer: Timer;
}

interface OpenQuestion {
  /** The id for the client. */
  readonly id: number;
  readonly round: Round;
  readonly keyText: string;
  readonly method: string;
}

/**
 * The questions of a server without sessions for clients of sessions. The server ends a request by a question, and gets the answer in the
 * next one (MCP 2026-07-28, basic/utilities/mrtr). The client gets an ordinary request on the stream of its call, and sees one call.
 *
 * Between two requests the call is suspended: it takes no slot, and outlives the server.
 */
export class SessionQuestions {
  readonly #lane: Lane;
  readonly #questions = new Map<unknown, OpenQuestion>();
  readonly #ids = new RequestIds();

  constructor(lane: Lane) {
    this.#lane = lane;
  }

  /** Asks the client of a call that its server has answered with questions. The call is suspended, or given up. */
  onInputRequired(call: ClientCall, request: RepeatableRequest, response: ResponseMessage): void {
    const asked = readInputRequired(response.text, response.outline.start(Slot.result));
    const { calls } = this.#lane;
    calls.suspend(call, typeof asked !== "string" && asked.questions.length > 0);
    if (typeof asked === "string") calls.giveUp(call, "invalid question", invalidQuestion(asked));
    else this.#begin(call, request, asked);
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
      return isAskable && !this.#ids.has(response.id) ? answerElsewhere() : undefined;
    }
    const { round, method } = question;
    const normal = readMessage(messageToServer(response));
    const isAnswer = normal.kind === "response" && !normal.isError && normal.outline.isObject(Slot.result);
    const text = isAnswer ? normal.outline.copyAt(Slot.result) : undefined;
    if (!round.memory.tryGrow(text === undefined ? 0 : textMemoryBytes(text))) return outOfMemory();
    if (text !== undefined || method === AskMethod.elicitation) this.#answer(question, text ?? CANCELLED);
    else {
      this.#take(question);
      const message = `The client answered ${method} of the MCP server with an error: ${errorText(response)}.`;
      this.#fail(round.call, "question answered with an error", message);
    }
    return undefined;
  }

  /** Asks the client, or fails the call if it cannot be asked. */
  #begin(call: ClientCall, request: RepeatableRequest, { questions, stateText }: InputRequired): void {
    const { calls, context } = this.#lane;
    const { config, nowMs, timers } = context;
    const refusal = checkDeclared(questions, request.declared);
    if (refusal !== undefined) return calls.giveUp(call, "question of an undeclared kind", refusal);
    if (questions.length > 0 && ++request.questionRounds > MAX_QUESTION_ROUNDS) {
      return this.#fail(call, "too many questions", `The MCP server asked more than ${MAX_QUESTION_ROUNDS} times during one call.`);
    }
    const kept = questions.reduce((bytes, { keyText }) => bytes + textMemoryBytes(keyText), textMemoryBytes(stateText ?? ""));
    const memory = call.caller.memory.reserve("requests", kept);
    if (memory === undefined) return calls.giveUp(call, "out of memory", responseOutOfMemory(call.method));
    const fail = (): void => calls.giveUp(call, "defect", internalError(true));
    const timer = new Timer(timers, () => context.defects.guard("question", () => this.#onDue(round), fail));
    const round: Round = { call, request, stateText, open: new Set(), answers: [], memory, timer };
    request.onEnd = () => {
      const ids = [...round.open];
      this.#end(round);
      // Its client must not answer any more.
      for (const id of ids) this.#emit(round, cancellation(id, "the call has ended"));
    };
    timer.set(nowMs() + (questions.length === 0 ? REPEAT_DELAY_MS : config.requestTimeoutMs * MAX_RENEWED_TIMES));
    const texts = questions.map((question) => {
      const { keyText, request: asked } = question;
      const id = this.#ids.mint();
      this.#questions.set(id, { id, round, keyText, method: asked.method });
      round.open.add(id);
      return [id, requestToClient(withElicitationId(question, randomUUID()), id)] as const;
    });
    // The client may have disconnected while it got the others.
    for (const [id, text] of texts) if (round.open.has(id)) this.#emit(round, text);
  }

  #take({ id, round }: OpenQuestion): void {
    this.#questions.delete(id);
    round.open.delete(id);
  }

  #answer(question: OpenQuestion, text: string): void {
    const { round, keyText } = question;
    this.#take(question);
    round.answers.push(`${keyText}:${text}`);
    if (round.open.size === 0) this.#repeat(round);
  }

  #onDue(round: Round): void {
    if (round.open.size === 0) return this.#repeat(round);
    for (const id of round.open) {
      const question = this.#questions.get(id);
      if (question !== undefined) this.#onOverdue(question);
    }
  }

  #onOverdue(question: OpenQuestion): void {
    const { id, round, method } = question;
    if (method === AskMethod.elicitation) {
      this.#emit(round, cancellation(id, "timeout"));
      this.#answer(question, CANCELLED);
    } else this.#fail(round.call, "question not answered in time", `The client did not answer ${method} in time. ${NEEDS_STREAM}`);
  }

  #repeat(round: Round): void {
    const { call, request, stateText, answers } = round;
    const members = answers.length === 0 ? [] : [`"inputResponses":{${answers.join(",")}}`];
    if (stateText !== undefined) members.push(`"requestState":${stateText}`);
    this.#end(round);
    this.#lane.calls.repeat(call, request.with(members.join(",")));
  }

  #fail(call: ClientCall, reason: string, description: string): void {
    this.#lane.calls.giveUp(call, reason, questionFailed(description));
  }

  #end(round: Round): void {
    round.timer.clear();
    round.request.onEnd = undefined;
    round.memory.release();
    for (const id of round.open) this.#questions.delete(id);
    round.open.clear();
  }

  #emit({ call }: Round, text: string): void {
    if (!call.reply.emit(text)) call.caller.deliver(text);
  }
}

function errorText({ text, outline }: ResponseMessage): string {
  const error = outline.isObject(Slot.error) ? findMembers(text, outline.start(Slot.error), ["message"]).spans[0] : undefined;
  return shorten(stringOf(text, error) ?? "no message");
}
