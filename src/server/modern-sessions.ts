import { JsonRpcErrorCode } from "../mcp/errors.ts";
import { findOtherCase, type RequestMessage, Slot } from "../mcp/message.ts";
import {
  ASKING_METHODS,
  isAmbiguous,
  logLevelOf,
  requestToModernServer,
  responseForSession,
  type SessionEnvelope,
  sessionEnvelopeOf,
} from "../mcp/translate.ts";
import type { Reply } from "../session/reply.ts";
import type { Caller } from "../session/session.ts";
import type { DesiredState } from "./desired-state.ts";
import { EMPTY_RESULT, refuse, type RequestDecision, unavailable } from "./call.ts";
import { RepeatableRequest, type SessionQuestions } from "./session-questions.ts";

const ANSWER_SLOTS = { inputResponses: Slot.inputResponses, requestState: Slot.repeatedState };

/** The sessions of a server that knows none. It gets each request with an envelope, and keeps no state of a session. */
export class ModernSessions {
  /** Each is short, and counts for no memory, like the session itself. */
  readonly #sessions = new Map<Caller, SessionEnvelope>();
  readonly #state: DesiredState;
  readonly #questions: SessionQuestions;

  constructor(state: DesiredState, questions: SessionQuestions) {
    [this.#state, this.#questions] = [state, questions];
  }

  add(session: Caller, initialize: RequestMessage): void {
    this.#sessions.set(session, sessionEnvelopeOf(initialize));
  }

  delete(caller: Caller): void {
    this.#sessions.delete(caller);
  }

  isAskable(caller: Caller): boolean {
    return (this.#sessions.get(caller)?.declared ?? 0) !== 0;
  }

  /** @returns the decision about a request of a session; undefined for a client without one. */
  decide(caller: Caller, request: RequestMessage, reply: Reply): RequestDecision | undefined {
    const envelope = this.#sessions.get(caller);
    if (envelope === undefined) return undefined;
    const { method, outline } = request;
    if (outline.has(Slot.inputResponses) || outline.has(Slot.repeatedState) || findOtherCase(outline, ANSWER_SLOTS) !== undefined) {
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
    if (ASKING_METHODS.has(method)) this.#questions.allow(reply, new RepeatableRequest(caller.memory, request, envelope, level));
    return { kind: "carry", request: requestToModernServer(request, envelope, level) };
  }
}
