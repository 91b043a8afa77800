import { type AskKinds, readCapabilities } from "../mcp/capabilities.ts";
import { JsonRpcErrorCode, SidecarError } from "../mcp/errors.ts";
import { findOtherCase, isJsonObject, type JsonObject, type RequestMessage, Slot } from "../mcp/message.ts";
import { type SubscriptionFilter, ALL_LISTS, supportedPart } from "../mcp/subscription-filter.ts";
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
import { EMPTY_RESULT, refuse, type RequestDecision } from "./routing.ts";
import { LogLevels, Subscriptions } from "./shared-routing.ts";
import type { CallCheck } from "./call.ts";
import type { LaneSubscription } from "./subscriptions.ts";

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
  readonly #levels = new LogLevels();
  readonly #subscriptions = new Subscriptions();
  /** Those that have not ended. */
  readonly #repeatable = new Map<Reply, RepeatableRequest>();
  /** Returns the subscription of the lane; undefined if its server is not ready. */
  readonly #laneSubscription: () => LaneSubscription | undefined;
  #capabilities: JsonObject = {};

  constructor(laneSubscription: () => LaneSubscription | undefined) {
    this.#laneSubscription = laneSubscription;
  }

  /** Must be called for each generation. @param discoverResult the JSON text. */
  onReady(discoverResult: string): void {
    this.#capabilities = readCapabilities(discoverResult);
  }

  add(session: Caller, initialize: RequestMessage): void {
    this.#sessions.set(session, sessionEnvelopeOf(initialize));
    // All sessions want the changes of all lists.
    if (this.#sessions.size === 1) this.#laneSubscription()?.update();
  }

  delete(caller: Caller): void {
    if (!this.#sessions.delete(caller)) return;
    this.#levels.delete(caller);
    const uris = this.#subscriptions.deleteAll(caller);
    if (uris.length > 0 || this.#sessions.size === 0) this.#laneSubscription()?.update();
  }

  /** All that sessions want to be told, as far as the server offers it. */
  get filter(): SubscriptionFilter {
    const lists = this.#sessions.size === 0 ? new Set<never>() : ALL_LISTS;
    return supportedPart({ lists, uris: this.#subscriptions.uris, tasks: new Set() }, this.#capabilities);
  }

  get subscribers(): Iterable<Caller> {
    return this.#subscriptions.callers;
  }

  isAskable(caller: Caller): boolean {
    return (this.#sessions.get(caller)?.declared ?? 0) !== 0;
  }

  has(caller: Caller): boolean {
    return this.#sessions.has(caller);
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
      case "logging/setLevel":
        return this.#setLevel(caller, outline.stringAt(Slot.level));
      case "resources/subscribe":
        return this.#subscribeTo(caller, outline.stringAt(Slot.uri));
      case "resources/unsubscribe":
        return this.#unsubscribe(caller, outline.stringAt(Slot.uri));
      case "server/discover":
      case "subscriptions/listen":
        return refuse(JsonRpcErrorCode.MethodNotFound, `${method} is not part of a session`);
      default:
        return method.startsWith("tasks/") ? unavailable(method) : this.#carry(caller, envelope, request, reply);
    }
  }

  deliverToAll(text: string): void {
    for (const session of this.#sessions.keys()) session.deliverOnce(text);
  }

  /** Delivers the update of a resource to its subscribers. @returns false if there are none. */
  deliverUpdate(uri: string | undefined, text: string): boolean {
    const subscribers = uri === undefined ? new Set<Caller>() : this.#subscriptions.subscribers(uri);
    for (const session of subscribers) session.deliverOnce(text);
    return subscribers.size > 0;
  }

  #carry(caller: Caller, envelope: SessionEnvelope, request: RequestMessage, reply: Reply): RequestDecision {
    const level = logLevelOf(request, this.#levels.levelOf(caller));
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

  #setLevel(caller: Caller, level: string | undefined): RequestDecision {
    if (!isJsonObject(this.#capabilities["logging"])) return unavailable("logging/setLevel");
    if (this.#levels.set(caller, level)) return EMPTY_RESULT;
    return refuse(
      JsonRpcErrorCode.InvalidParams,
      "level must be a log level: debug, info, notice, warning, error, critical, alert or emergency",
    );
  }

  /** The client gets its answer when the server has acknowledged the wider subscription, so no update after it is missed. */
  #subscribeTo(caller: Caller, uri: string | undefined): RequestDecision {
    const { resources } = this.#capabilities;
    if (!isJsonObject(resources) || resources["subscribe"] !== true) return unavailable("resources/subscribe");
    if (uri === undefined) return refuse(JsonRpcErrorCode.InvalidParams, "uri must be a string");
    const subscribing = this.#subscriptions.subscribe(caller, uri);
    if (typeof subscribing === "string") return refuse(JsonRpcErrorCode.ServerError, subscribing);
    const onEnded = (hasResult: boolean): void => {
      subscribing.onEnded(hasResult);
      if (!hasResult) this.#laneSubscription()?.update();
    };
    const check: CallCheck = (onVerdict) => {
      // The next generation has another one.
      const subscription = this.#laneSubscription();
      const onDone = (isAccepted: boolean): void => {
        if (isAccepted) onVerdict({ resultText: "{}" });
        else onVerdict(new SidecarError("INVALID_PARAMS", "The MCP server has rejected the subscription to this resource."));
      };
      subscription?.subscribe(uri, onDone);
      return () => subscription?.stopWaiting(onDone);
    };
    return { kind: "carry", onEnded, limits: { check } };
  }

  #unsubscribe(caller: Caller, uri: string | undefined): RequestDecision {
    if (uri === undefined) return refuse(JsonRpcErrorCode.InvalidParams, "uri must be a string");
    const isKnown = this.#subscriptions.has(uri);
    if (isKnown && this.#subscriptions.delete(caller, uri)) this.#laneSubscription()?.update();
    return EMPTY_RESULT;
  }
}

function unavailable(method: string): RequestDecision {
  return refuse(JsonRpcErrorCode.MethodNotFound, `${method} is not available: this MCP server does not offer it`);
}
