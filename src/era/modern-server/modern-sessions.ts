import { SidecarError } from "../../errors.ts";
import type { CallVerdict } from "../../lane/calls/call-limits.ts";
import { readCapabilities } from "../../lane/handshake/capabilities.ts";
import { LogLevels } from "../../lane/routing/log-levels.ts";
import { refuse, type RequestDecision } from "../../lane/routing/routing.ts";
import { Subscriptions } from "../../lane/routing/subscriptions.ts";
import { JsonRpcErrorCode } from "../../protocol/error-codes.ts";
import { findOtherCase, isJsonObject, type JsonObject, type RequestMessage, Slot } from "../../protocol/message.ts";
import type { Caller } from "../../sessions/caller.ts";
import type { Exchange } from "../../sessions/exchange.ts";
import { SessionExchange } from "./session-exchange.ts";
import { allLists, type SubscriptionFilter, supportedPart } from "../subscriptions/subscription-filter.ts";
import type { LaneSubscription } from "../subscriptions/lane-subscription.ts";
import { StatelessExchange, type StatelessExchangeOptions } from "../stateless-exchange.ts";
import { SessionEnvelope } from "./session-envelope.ts";
import { responseForSession, WRAPPED_BYTES } from "./session-result.ts";

/** The methods in whose result a server may ask the client (MCP 2026-07-28, basic/utilities/mrtr). */
const ASKING_METHODS: ReadonlySet<string> = new Set(["tools/call", "prompts/get", "resources/read"]);
const ANSWER_SLOTS = { inputResponses: Slot.inputResponses, requestState: Slot.repeatedState };
const EMPTY_RESULT: RequestDecision = { kind: "answer", member: "result", text: "{}" };

/** The sessions of a server that knows none. It gets each request with an envelope, and keeps no state of a session. */
export class ModernSessions {
  /** Each is short, and counts for no memory, like the session itself. */
  readonly #sessions = new Map<Caller, SessionEnvelope>();
  readonly #levels = new LogLevels();
  readonly #subscriptions = new Subscriptions();
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
    this.#sessions.set(session, new SessionEnvelope(initialize));
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
    const lists = this.#sessions.size === 0 ? new Set<never>() : allLists();
    return supportedPart({ lists, uris: this.#subscriptions.uris, tasks: new Set() }, this.#capabilities);
  }

  /** The sessions that are subscribed to a resource. */
  get subscribers(): Iterable<Caller> {
    return this.#subscriptions.callers;
  }

  /** True if the client of a session has declared that it answers questions. */
  isAskable(caller: Caller): boolean {
    return (this.#sessions.get(caller)?.declared ?? 0) !== 0;
  }

  has(caller: Caller): boolean {
    return this.#sessions.has(caller);
  }

  /** @returns the decision about a request of a session; undefined for a client without one. */
  decide(caller: Caller, request: RequestMessage): RequestDecision | undefined {
    const envelope = this.#sessions.get(caller);
    if (envelope === undefined) return undefined;
    const { method, outline } = request;
    if (outline.has(Slot.inputResponses) || outline.has(Slot.repeatedState) || findOtherCase(outline, ANSWER_SLOTS) !== undefined) {
      return refuse(JsonRpcErrorCode.InvalidParams, "inputResponses and requestState are not part of a session: answer by responses");
    }
    if (SessionEnvelope.isAmbiguous(request)) return refuse(JsonRpcErrorCode.InvalidParams, "a reserved key of _meta is repeated");
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
        return method.startsWith("tasks/") ? unavailable(method) : this.#carry(caller, envelope, request);
    }
  }

  /** Delivers a change of a list to all sessions. */
  deliverToAll(text: string): void {
    for (const session of this.#sessions.keys()) session.deliverOnce(text);
  }

  /** Delivers the update of a resource to its subscribers. @returns false if there are none. */
  deliverUpdate(uri: string | undefined, text: string): boolean {
    const subscribers = uri === undefined ? new Set<Caller>() : this.#subscriptions.subscribers(uri);
    for (const session of subscribers) session.deliverOnce(text);
    return subscribers.size > 0;
  }

  #carry(caller: Caller, envelope: SessionEnvelope, request: RequestMessage): RequestDecision {
    const logLevel = SessionEnvelope.levelOf(request, this.#levels.levelOf(caller));
    const { method } = request;
    const requestWith = (params?: string): RequestMessage => envelope.addTo(request, logLevel, params);
    const wrap = (exchange: Exchange): Exchange => {
      const options: StatelessExchangeOptions = {
        rewrite: (body, response) => responseForSession(body, exchange.idText, method, response),
        addedBytes: method === "tools/call" ? WRAPPED_BYTES : 0,
        logLevel,
      };
      if (!ASKING_METHODS.has(method)) return new StatelessExchange(exchange, options);
      return new SessionExchange(exchange, { ...options, declared: envelope.declared, request, requestWith, memory: caller.memory });
    };
    return { kind: "carry", request: requestWith(), wrap };
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
    const onSettled = (hasResult: boolean): void => {
      subscribing.onSettled(hasResult);
      if (!hasResult) this.#laneSubscription()?.update();
    };
    return { kind: "carry", onSettled, limits: { check: (onVerdict) => this.#whenSubscribed(uri, onVerdict) } };
  }

  #whenSubscribed(uri: string, onVerdict: (verdict: CallVerdict) => void): () => void {
    // The next generation has another one.
    const subscription = this.#laneSubscription();
    const onDone = (isAccepted: boolean): void => onVerdict(isAccepted ? { resultText: "{}" } : { error: subscriptionRejected() });
    subscription?.subscribe(uri, onDone);
    return () => subscription?.stopWaiting(onDone);
  }

  #unsubscribe(caller: Caller, uri: string | undefined): RequestDecision {
    if (uri === undefined) return refuse(JsonRpcErrorCode.InvalidParams, "uri must be a string");
    const isKnown = this.#subscriptions.has(uri);
    if (isKnown && this.#subscriptions.delete(caller, uri)) this.#laneSubscription()?.update();
    return EMPTY_RESULT;
  }
}

function subscriptionRejected(): SidecarError {
  return new SidecarError("INVALID_PARAMS", "The MCP server has rejected the subscription to this resource.");
}

function unavailable(method: string): RequestDecision {
  return refuse(JsonRpcErrorCode.MethodNotFound, `${method} is not available: this MCP server does not offer it`);
}
