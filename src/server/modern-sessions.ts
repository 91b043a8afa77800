import type { AskKinds } from "../mcp/capabilities.ts";
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
import { textMemoryBytes } from "../memory.ts";
import type { Reply } from "../session/reply.ts";
import type { Caller } from "../session/session.ts";
import type { DesiredState } from "./desired-state.ts";
import { EMPTY_RESULT, refuse, type RequestDecision, unavailable } from "./call.ts";

/** A session's request in whose result the server may ask its client. It is kept, because the server may need it several times. */
export class RepeatableRequest {
  /** The number of results with questions so far. */
  questionRounds = 0;
  /** Called once at the end of its reply, while the client still accepts messages, if it has not disconnected. */
  onEnd: (() => void) | undefined;
  readonly #envelope: SessionEnvelope;
  readonly #request: RequestMessage;
  readonly #level: string | undefined;

  constructor(request: RequestMessage, envelope: SessionEnvelope, level: string | undefined) {
    [this.#request, this.#envelope, this.#level] = [request, envelope, level];
  }

  /** The questions that the client can answer. */
  get declared(): AskKinds {
    return this.#envelope.declared;
  }

  /** Returns the request for the server. @param params the JSON text of more members of its params. */
  with(params: string): RequestMessage {
    return requestToModernServer(this.#request, this.#envelope, this.#level, params);
  }
}

const ANSWER_SLOTS = { inputResponses: Slot.inputResponses, requestState: Slot.repeatedState };

/** The sessions of a server that knows none. It gets each request with an envelope, and keeps no state of a session. */
export class ModernSessions {
  /** Each is short, and counts for no memory, like the session itself. */
  readonly #sessions = new Map<Caller, SessionEnvelope>();
  readonly #state: DesiredState;
  /** Those that have not ended. */
  readonly #repeatable = new Map<Reply, RepeatableRequest>();

  constructor(state: DesiredState) {
    this.#state = state;
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

  /** Returns the request of a reply, if the server may ask its client. */
  repeatableOf(reply: Reply): RepeatableRequest | undefined {
    return this.#repeatable.get(reply);
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
    if (ASKING_METHODS.has(method)) {
      const repeatable = new RepeatableRequest(request, envelope, level);
      const kept = caller.memory.hold("requests", textMemoryBytes(request.text));
      this.#repeatable.set(reply, repeatable);
      reply.onEnd = () => {
        this.#repeatable.delete(reply);
        kept.release();
        repeatable.onEnd?.();
      };
    }
    return { kind: "carry", request: requestToModernServer(request, envelope, level) };
  }
}
