import type { IncomingHttpHeaders } from "node:http";
import { SidecarError } from "../errors.ts";
import { applyEdits, setMembers } from "../json/edit.ts";
import { InternalExchange, internalRequest } from "../lane/internal/internal-exchange.ts";
import { outOfMemory, shuttingDown } from "../lane/failures.ts";
import { readCapabilities } from "../lane/handshake/capabilities.ts";
import type { MemoryAccount, MemoryHolder } from "../memory/memory-budget.ts";
import { textMemoryBytes } from "../memory/memory-size.ts";
import type { Defects } from "../observability/defects.ts";
import { type RequestMessage, Slot } from "../protocol/message.ts";
import { MODERN_PROTOCOL_VERSIONS } from "../protocol/versions.ts";
import type { Exchange } from "../sessions/exchange.ts";
import type { Rewrite } from "../sessions/rewritten-exchange.ts";
import type { ServerEra, UpstreamHandshake } from "../upstream/port.ts";
import { discoverResult, shortServerInfoText } from "./legacy-server/discovery.ts";
import { requestToLegacyServer } from "./legacy-server/legacy-request.ts";
import { addedBytes, responseToModernClient } from "./legacy-server/legacy-result.ts";
import { LegacySubscription } from "./subscriptions/legacy-subscription.ts";
import { LOG_LEVELS, type Envelope, methodNotFound, removedMethod } from "./checks/request-check.ts";
import type { RequestState } from "./request-state.ts";
import type { ServerEras, Target } from "./server-eras.ts";
import { findResult } from "./result-spans.ts";
import { checkResultType } from "./result-type.ts";
import { StatelessExchange } from "./stateless-exchange.ts";
import { type StatelessClient, StatelessClients } from "./stateless-client.ts";
import { Subscription } from "./subscriptions/subscription.ts";
import { readFilter } from "./subscriptions/subscription-filter.ts";

/** The maximum number of subscriptions of one client. */
const MAX_SUBSCRIPTIONS = 256;

export interface StatelessRequestsOptions {
  readonly eras: ServerEras;
  readonly maxClients: number;
  /** Undefined if all requests have the same principal. */
  readonly requestState: RequestState | undefined;
  /** True if a client that can answer questions gets a server of its own when it begins a session. */
  readonly hasPrivateServers: boolean;
  readonly defects: Pick<Defects, "recover" | "guard">;
  readonly nowMs: () => number;
}

interface StatelessStatus {
  readonly serverEra: ServerEra | "unknown";
  /** All requests so far. */
  readonly requests: number;
  readonly clients: number;
  readonly subscriptions: number;
}

/** A request that has passed all checks of its text. */
export interface StatelessRequest {
  readonly request: RequestMessage;
  readonly envelope: Envelope;
  readonly headers: IncomingHttpHeaders;
  readonly exchange: Exchange;
  readonly memory: MemoryAccount;
  /** Answers as a server does that knows no revision without sessions. The client then begins a session. */
  readonly onUnknown: () => void;
}

interface Sent extends StatelessRequest, Target {
  readonly client: StatelessClient;
}

/** The requests of clients without sessions, on their way to a server of either era (MCP 2026-07-28). */
export class StatelessRequests {
  readonly #options: StatelessRequestsOptions;
  readonly #clients: StatelessClients;
  /** The most verbose level that each client has asked a server with sessions for. */
  readonly #levels = new WeakMap<StatelessClient, string>();
  readonly #subscriptions = new Map<Subscription, { readonly client: StatelessClient; end(reason: string): void }>();
  /** Each result has this text, so it is found once for each handshake. */
  readonly #serverInfoTexts = new WeakMap<UpstreamHandshake, string | undefined>();
  #requestCount = 0;
  #isDraining = false;

  constructor(options: StatelessRequestsOptions, endCaller: (client: StatelessClient) => void) {
    this.#options = options;
    this.#clients = new StatelessClients(options.maxClients, endCaller);
  }

  get status(): StatelessStatus {
    const { eras } = this.#options;
    const [clients, subscriptions] = [this.#clients.size, this.#subscriptions.size];
    return { serverEra: eras.era ?? "unknown", requests: this.#requestCount, clients, subscriptions };
  }

  /** Handles one request. It is answered exactly once. */
  handle(stateless: StatelessRequest): void {
    const { request, exchange, memory } = stateless;
    this.#requestCount++;
    const removed = removedMethod(request);
    if (removed !== undefined) return exchange.fail(removed);
    const client = this.#clients.use(memory);
    const fail = (error: SidecarError): void => exchange.fail(error);
    const found = (target: Target): void => this.#guard(exchange, () => this.#send({ ...stateless, ...target, client }));
    this.#options.eras.find({ owner: client, exchange, request }, found, fail);
  }

  /** Ends the requests and subscriptions of a holder. */
  endAllOf(holder: MemoryHolder): void {
    for (const [subscription, { client }] of this.#subscriptions) if (client.memory.holder === holder) subscription.end();
    this.#clients.end(holder);
  }

  /** Ends all subscriptions gracefully. */
  drain(): void {
    this.#isDraining = true;
    for (const subscription of this.#subscriptions.keys()) subscription.end();
  }

  #send(sent: Sent): void {
    const { request, envelope, headers, exchange, handshake, params, onUnknown } = sent;
    const { method } = request;
    const isLegacy = handshake.era === "legacy";
    const isAnsweredHere = method === "server/discover" || method === "subscriptions/listen";
    if (isAnsweredHere && this.#isDraining) return exchange.fail(shuttingDown(method, false));
    if (method === "server/discover") {
      const { elicitation, sampling } = envelope.declared;
      // Questions of a server with sessions reach only the clients of sessions.
      if (isLegacy && this.#options.hasPrivateServers && (elicitation || sampling)) return onUnknown();
      const resultText = isLegacy ? discoverResult(handshake.resultText) : withVersions(handshake.resultText);
      return exchange.respond(`{"jsonrpc":"2.0","id":${exchange.idText},"result":${resultText}}`);
    }
    if (method === "subscriptions/listen") return this.#listen(sent);
    if (isLegacy && method.startsWith("tasks/")) return exchange.fail(methodNotFound(method));
    const checked = method === "tools/call" ? params.check(request, headers) : undefined;
    if (checked === undefined) this.#forward(sent);
    else if (checked instanceof SidecarError) exchange.fail(checked);
    else void this.#forwardChecked(sent, checked);
  }

  /** Forwards a call when its headers are checked, unless its client has left meanwhile. Never rejects. */
  async #forwardChecked(sent: Sent, checked: Promise<SidecarError | undefined>): Promise<void> {
    const { request, exchange, memory } = sent;
    const held = memory.reserve("requests", textMemoryBytes(request.text));
    if (held === undefined) return exchange.fail(outOfMemory("The request was not sent."));
    let hasLeft = false;
    exchange.onDisconnect(() => (hasLeft = true));
    const error = await checked;
    held.release();
    if (hasLeft) return;
    this.#guard(exchange, () => {
      if (error === undefined) this.#forward(sent);
      else exchange.fail(error);
    });
  }

  #forward(sent: Sent): void {
    if (sent.handshake.era === "legacy") this.#forwardToLegacy(sent);
    else this.#forwardToModern(sent);
  }

  #forwardToLegacy({ request, envelope, exchange, handshake, lane, client }: Sent): void {
    const { logLevel, declared } = envelope;
    const shape = {
      method: request.method,
      serverInfoText: this.#serverInfoText(handshake),
      uriText: request.outline.copyAt(Slot.uri),
      declaresUrl: declared.url,
    };
    if (logLevel !== undefined) this.#raiseLevel(client, logLevel, lane, handshake.resultText);
    const rewrite: Rewrite = (body, response) => responseToModernClient(body, shape, response);
    const wrapped = new StatelessExchange(exchange, { rewrite, addedBytes: addedBytes(shape), logLevel });
    lane.request(client, wrapped, requestToLegacyServer(request));
  }

  #forwardToModern({ request, envelope, exchange, lane, routing, client }: Sent): void {
    const { requestState } = this.#options;
    const { holder } = client.memory;
    const unsealed = requestState?.unseal(request, holder) ?? request;
    if (unsealed instanceof SidecarError) return exchange.fail(unsealed);
    const rewrite: Rewrite = (body, response) => {
      const spans = findResult(body, response);
      if (spans === undefined) return body;
      return checkResultType(body, spans) ?? requestState?.seal(body, spans, request, holder) ?? body;
    };
    const { logLevel } = envelope;
    const wrapped = new StatelessExchange(exchange, { rewrite, addedBytes: 0, logLevel, onEnd: (ended) => routing.logs.delete(ended) });
    if (logLevel !== undefined) routing.logs.add(wrapped, logLevel);
    lane.request(client, wrapped, unsealed);
  }

  #serverInfoText(handshake: UpstreamHandshake): string | undefined {
    if (!this.#serverInfoTexts.has(handshake)) this.#serverInfoTexts.set(handshake, shortServerInfoText(handshake.resultText));
    return this.#serverInfoTexts.get(handshake);
  }

  /** A server with sessions has one level for all: the most verbose that was ever wanted. Each request gets its own part of it. */
  #raiseLevel(client: StatelessClient, level: string, lane: Sent["lane"], initializeResult: string): void {
    const former = this.#levels.get(client);
    if (former !== undefined && LOG_LEVELS.indexOf(former) <= LOG_LEVELS.indexOf(level)) return;
    if (readCapabilities(initializeResult)["logging"] === undefined) return;
    this.#levels.set(client, level);
    const exchange = new InternalExchange(this.#options.nowMs(), () => this.#levels.delete(client));
    lane.request(client, exchange, internalRequest("logging/setLevel", { level }));
  }

  #listen(sent: Sent): void {
    const { request, exchange, handshake, lane, routing, memory, client } = sent;
    const filter = readFilter(request);
    if (filter instanceof SidecarError) return exchange.fail(filter);
    if (!exchange.isListening) return exchange.fail(new SidecarError("NOT_ACCEPTABLE", "Accept must allow text/event-stream."));
    const own = this.#subscriptions.values().filter((each) => each.client === client);
    if (own.toArray().length >= MAX_SUBSCRIPTIONS) return exchange.fail(tooMany());
    const subscription = new Subscription(exchange, () => {
      this.#subscriptions.get(subscription)?.end("the client has left");
      this.#subscriptions.delete(subscription);
    });
    if (handshake.era === "modern") {
      const cancel = routing.subscribe(subscription, request, memory);
      if (cancel === undefined) return exchange.fail(outOfMemory("The request was not sent."));
      this.#subscriptions.set(subscription, { client, end: cancel });
      return;
    }
    const later = (run: () => void): void => void setImmediate(() => this.#options.defects.guard("subscription", run));
    const upstream = new LegacySubscription(subscription, memory, lane, filter, later);
    this.#subscriptions.set(subscription, { client, end: () => upstream.end() });
    void upstream.start(this.#options.nowMs()).catch((error: unknown) => {
      this.#options.defects.recover("subscription", error, () => subscription.end());
    });
  }

  #guard(exchange: Exchange, handle: () => void): void {
    try {
      handle();
    } catch (error) {
      this.#options.defects.recover("client request", error, () =>
        exchange.fail(new SidecarError("INTERNAL_ERROR", "The sidecar could not handle this request.", { sent: true })),
      );
    }
  }
}

/** Returns a server's `DiscoverResult` with the revisions that the sidecar serves. */
function withVersions(resultText: string): string {
  return applyEdits(resultText, setMembers(resultText, 0, [["supportedVersions", JSON.stringify(MODERN_PROTOCOL_VERSIONS)]]));
}

function tooMany(): SidecarError {
  const message = `This client has ${MAX_SUBSCRIPTIONS} subscriptions, its limit; end some first.`;
  return new SidecarError("SESSION_OVERLOADED", message, { retryAfterSeconds: 1 });
}
