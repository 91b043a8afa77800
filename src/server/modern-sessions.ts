import { randomUUID } from "node:crypto";
import { findPath, stringOf } from "../json/read.ts";
import { shorten } from "../json/text.ts";
import { type AskKinds, AskMethod } from "../mcp/capabilities.ts";
import { JsonRpcErrorCode, type SidecarError } from "../mcp/errors.ts";
import { findAmbiguity, readMessage, type RequestMessage, type ResponseMessage, Slot } from "../mcp/message.ts";
import {
  checkDeclared,
  type InputRequired,
  invalidQuestion,
  isInputRequired,
  questionFailed,
  readInputRequired,
  withElicitationId,
} from "../mcp/questions.ts";
import { messageToServer, requestToClient } from "../mcp/rewrite.ts";
import {
  ASKING_METHODS,
  isAmbiguous,
  logLevelOf,
  requestToModernServer,
  responseForSession,
  type SessionEnvelope,
  sessionEnvelopeOf,
} from "../mcp/translate.ts";
import { type MemoryAccount, type Reservation, textMemoryBytes } from "../memory.ts";
import type { Askable, Reply } from "../session/reply.ts";
import type { Caller } from "../session/session.ts";
import { Timer } from "../timers.ts";
import { cancellation, type ClientCall, EMPTY_RESULT, refuse, type RequestDecision, unavailable } from "./call.ts";
import type { DesiredState } from "./desired-state.ts";
import { answerElsewhere, internalError, outOfMemory, responseOutOfMemory } from "./failures.ts";
import type { Calls } from "./calls.ts";
import { type Question, Questions } from "./questions.ts";

const MAX_QUESTION_ROUNDS = 8;
/** The pause before a request is repeated whose server asks nothing. */
const REPEAT_DELAY_MS = 250;

const NEEDS_STREAM = "Clients receive questions on the event stream of the call, or of a GET.";

const CANCELLED = '{"action":"cancel"}';

const ANSWER_SLOTS = { inputResponses: Slot.inputResponses, requestState: Slot.repeatedState };

/** A request of a session is kept if the server may answer it with questions, because the server then gets it again. */
class RepeatableRequest implements Askable {
  missing = 0;
  rounds = 0;
  stateText: string | undefined;
  answers: string[] = [];
  /** The state and the answers count too while the call is suspended. */
  readonly memory: Reservation;
  timer: Timer | undefined;
  readonly declared: AskKinds;
  readonly #envelope: SessionEnvelope;
  readonly #request: RequestMessage;
  readonly #level: string | undefined;

  constructor(account: MemoryAccount, request: RequestMessage, envelope: SessionEnvelope, level: string | undefined) {
    [this.#request, this.#envelope, this.#level, this.declared] = [request, envelope, level, envelope.declared];
    this.memory = account.hold("requests", textMemoryBytes(request.text));
  }

  next(): RequestMessage {
    const { answers, stateText } = this;
    const members = answers.length === 0 ? [] : [`"inputResponses":{${answers.join(",")}}`];
    if (stateText !== undefined) members.push(`"requestState":${stateText}`);
    [this.answers, this.stateText] = [[], undefined];
    this.memory.resize(textMemoryBytes(this.#request.text));
    return requestToModernServer(this.#request, this.#envelope, this.#level, members.join(","));
  }
}

/**
 * The sessions of a server that knows none. It ends a request by a question, and gets the answer in the next one (MCP 2026-07-28,
 * basic/utilities/mrtr). The client gets a request on the stream of its call, and sees one call.
 *
 * Between two requests the call is suspended: it takes no slot, and outlives the server.
 */
export class ModernSessions {
  readonly #calls: Calls;
  readonly #questions: Questions;
  readonly #state: DesiredState;
  /** Each is short, and counts for no memory, like the session itself. */
  readonly #sessions = new Map<Caller, SessionEnvelope>();

  constructor(calls: Calls, state: DesiredState) {
    [this.#calls, this.#state] = [calls, state];
    const onOverdue = (question: Question): void => this.#guard(question.call, () => this.#onOverdue(question));
    // The calls, and the questions in one result, have limits of their own.
    this.#questions = new Questions(calls, Infinity, onOverdue);
  }

  add(session: Caller, initialize: RequestMessage): void {
    this.#sessions.set(session, sessionEnvelopeOf(initialize));
  }

  delete(caller: Caller): void {
    this.#sessions.delete(caller);
  }

  decide(caller: Caller, request: RequestMessage, reply: Reply): RequestDecision | undefined {
    const envelope = this.#sessions.get(caller);
    if (envelope === undefined) return undefined;
    const { method, outline } = request;
    if (outline.has(Slot.inputResponses) || outline.has(Slot.repeatedState) || findAmbiguity(outline, ANSWER_SLOTS) !== undefined) {
      return refuse(JsonRpcErrorCode.InvalidParams, "inputResponses and requestState are not part of a session: answer by responses");
    }
    if (isAmbiguous(request)) return refuse(JsonRpcErrorCode.InvalidParams, "a reserved key of _meta is repeated");
    switch (method) {
      case "ping":
        return EMPTY_RESULT;
      case "server/discover":
      case "subscriptions/listen":
        return refuse(JsonRpcErrorCode.MethodNotFound, `${method} is not part of a session`);
      default:
        return method.startsWith("tasks/") ? unavailable(method) : this.#carry(caller, envelope, request, reply);
    }
  }

  #carry(caller: Caller, envelope: SessionEnvelope, request: RequestMessage, reply: Reply): RequestDecision {
    const level = logLevelOf(request, this.#state.levelOf(caller));
    const { method } = request;
    reply.logLevel = level;
    reply.transforms.push((text, idText, response) => responseForSession(text, idText, method, response));
    if (ASKING_METHODS.has(method)) this.#allow(reply, new RepeatableRequest(caller.memory, request, envelope, level));
    return { kind: "carry", request: requestToModernServer(request, envelope, level) };
  }

  /** @returns false for a response that ends its call. */
  onResponse(call: ClientCall, response: ResponseMessage): boolean {
    const { askable: request } = call.reply;
    if (!(request instanceof RepeatableRequest && isInputRequired(response))) return false;
    const asked = readInputRequired(response.text, response.outline.start(Slot.result));
    const calls = this.#calls;
    calls.suspend(call, typeof asked !== "string" && asked.questions.length > 0);
    if (typeof asked === "string") calls.giveUp(call, "invalid question", invalidQuestion(asked));
    else this.#begin(call, request, asked);
    return true;
  }

  /** @returns the error if the answer is rejected: the question stays open. */
  onAnswer(caller: Caller, response: ResponseMessage): SidecarError | undefined {
    const question = this.#questions.get(response.id);
    const call = question?.call;
    if (question === undefined || call?.caller !== caller) {
      // If the client has declared that it answers questions, another replica may have asked it.
      const isAskable = (this.#sessions.get(caller)?.declared ?? 0) !== 0;
      return isAskable && !this.#questions.ids.has(response.id) ? answerElsewhere() : undefined;
    }
    const { method } = question;
    const normal = readMessage(messageToServer(response));
    const isAnswer = normal.kind === "response" && !normal.isError && normal.outline.firstAt(Slot.result) === "{";
    const text = isAnswer ? normal.outline.copyAt(Slot.result) : undefined;
    const hasRoom = text === undefined || requestOf(call)?.memory.tryGrow(textMemoryBytes(text)) !== false;
    if (!hasRoom) return outOfMemory();
    if (text !== undefined || method === AskMethod.elicitation) this.#answer(question, text ?? CANCELLED);
    else {
      this.#questions.close(question);
      const message = `The client answered ${method} of the MCP server with an error: ${errorText(response)}.`;
      this.#fail(call, "question answered with an error", message);
    }
    return undefined;
  }

  #allow(reply: Reply, request: RepeatableRequest): void {
    reply.askable = request;
    reply.onEnd = () => {
      request.timer?.clear();
      request.memory.release();
      for (const question of this.#questions.values())
        if (question.call?.reply === reply && this.#questions.close(question))
          this.#emit(question, cancellation(question.id, "the call has ended"));
    };
  }

  #begin(call: ClientCall, request: RepeatableRequest, { questions: asked, stateText }: InputRequired): void {
    const calls = this.#calls;
    const refusal = checkDeclared(asked, request.declared);
    if (refusal !== undefined) return calls.giveUp(call, "question of an undeclared kind", refusal);
    if (asked.length > 0 && ++request.rounds > MAX_QUESTION_ROUNDS) {
      return this.#fail(call, "too many questions", `The MCP server asked more than ${MAX_QUESTION_ROUNDS} times during one call.`);
    }
    const kept = asked.reduce((bytes, { keyText }) => bytes + textMemoryBytes(keyText), textMemoryBytes(stateText ?? ""));
    if (!request.memory.tryGrow(kept)) return calls.giveUp(call, "out of memory", responseOutOfMemory(call.method));
    request.stateText = stateText;
    if (asked.length === 0) {
      request.timer ??= new Timer(calls.context, () => this.#guard(call, () => calls.repeat(call, request.next())));
      return request.timer.set(calls.context.nowMs() + REPEAT_DELAY_MS);
    }
    const texts = asked.map((each) => {
      const question = this.#questions.add(each.request, each.keyText);
      question.call = call;
      return [question, requestToClient(withElicitationId(each, randomUUID()), question.id)] as const;
    });
    // The client may have disconnected while it got the others.
    for (const [question, text] of texts) if (this.#questions.has(question.id)) this.#emit(question, text);
  }

  #answer(question: Question, text: string): void {
    this.#questions.close(question);
    const { call, idText } = question;
    const request = requestOf(call);
    if (call === undefined || request === undefined) return;
    request.answers.push(`${idText}:${text}`);
    if (this.#questions.about(call).length === 0) this.#calls.repeat(call, request.next());
  }

  #onOverdue(question: Question): void {
    const { call, id, method } = question;
    if (method === AskMethod.elicitation) {
      this.#emit(question, cancellation(id, "timeout"));
      this.#answer(question, CANCELLED);
    } else this.#fail(call, "question not answered in time", `The client did not answer ${method} in time. ${NEEDS_STREAM}`);
  }

  #fail(call: ClientCall | undefined, reason: string, description: string): void {
    if (call !== undefined) this.#calls.giveUp(call, reason, questionFailed(description));
  }

  /** Nothing else would end a suspended call after a defect. */
  #guard(call: ClientCall | undefined, handle: () => void): void {
    const calls = this.#calls;
    calls.context.defects.guard("question", handle, () => call && calls.giveUp(call, "defect", internalError(true)));
  }

  #emit({ call }: Question, text: string): void {
    if (call?.reply.emit(text) === false) call.caller.deliver?.(text);
  }
}

function requestOf(call: ClientCall | undefined): RepeatableRequest | undefined {
  const askable = call?.reply.askable;
  return askable instanceof RepeatableRequest ? askable : undefined;
}

function errorText({ text, outline }: ResponseMessage): string {
  return shorten(stringOf(text, findPath(text, outline.start(Slot.error), ["message"])) ?? "no message");
}
