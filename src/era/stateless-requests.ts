import { SidecarError } from "../errors.ts";
import { applyEdits, setMembers } from "../json/edit.ts";
import { outOfMemory, shuttingDown } from "../lane/failures.ts";
import type { MemoryHolder } from "../memory/memory-budget.ts";
import { textMemoryBytes } from "../memory/memory-size.ts";
import type { Defects } from "../observability/defects.ts";
import { MODERN_PROTOCOL_VERSIONS } from "../protocol/versions.ts";
import type { Exchange } from "../sessions/exchange.ts";
import type { Rewrite } from "../sessions/rewritten-exchange.ts";
import type { ServerEra } from "../upstream/port.ts";
import { methodNotFound, removedMethod } from "./checks/request-check.ts";
import { findResult } from "./found-result.ts";
import { discoverResult } from "./legacy-server/discovery.ts";
import { LegacyCalls } from "./legacy-server/legacy-calls.ts";
import type { RequestState } from "./request-state.ts";
import { checkResultType } from "./result-type.ts";
import type { ServerEras, Target } from "./server-eras.ts";
import { type StatelessClient, StatelessClients } from "./stateless-client.ts";
import { StatelessExchange } from "./stateless-exchange.ts";
import type { StatelessCall, StatelessRequest } from "./stateless-request.ts";
import { StatelessSubscriptions } from "./subscriptions/stateless-subscriptions.ts";
import type { TaskOwners } from "./task-owners.ts";

export interface StatelessRequestsOptions {
  readonly eras: ServerEras;
  readonly maxClients: number;
  /** The clients of states and tasks; undefined if all requests have the same principal. */
  readonly bindings: { readonly requestState: RequestState; readonly tasks: TaskOwners } | undefined;
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

/** The requests of clients without sessions, on their way to a server of either era (MCP 2026-07-28). */
export class StatelessRequests {
  readonly #options: StatelessRequestsOptions;
  readonly #clients: StatelessClients;
  readonly #legacyCalls: LegacyCalls;
  readonly #subscriptions: StatelessSubscriptions;
  #requestCount = 0;
  #isDraining = false;

  constructor(options: StatelessRequestsOptions, endCaller: (client: StatelessClient) => void) {
    this.#options = options;
    this.#clients = new StatelessClients(options.maxClients, endCaller);
    this.#legacyCalls = new LegacyCalls(options.nowMs);
    this.#subscriptions = new StatelessSubscriptions(options.defects, options.nowMs);
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
    const found = (target: Target): void => this.#guard(exchange, () => this.#route({ stateless, target, client }));
    this.#options.eras.find({ owner: client, exchange, request }, found, fail);
  }

  /** Ends the requests and subscriptions of a holder. */
  endAllOf(holder: MemoryHolder): void {
    this.#subscriptions.end(holder);
    this.#clients.end(holder);
  }

  /** Ends all subscriptions gracefully. */
  drain(): void {
    this.#isDraining = true;
    this.#subscriptions.end();
  }

  #route(call: StatelessCall): void {
    const { request, envelope, headers, exchange, onUnknown } = call.stateless;
    const { handshake, params } = call.target;
    const { method } = request;
    const isLegacy = handshake.era === "legacy";
    const foreign = isLegacy ? undefined : this.#options.bindings?.tasks.check(request, call.client.memory.holder);
    if (foreign !== undefined) return exchange.fail(foreign);
    const isAnsweredHere = method === "server/discover" || method === "subscriptions/listen";
    if (isAnsweredHere && this.#isDraining) return exchange.fail(shuttingDown(method, false));
    if (method === "server/discover") {
      const { elicitation, sampling } = envelope.declared;
      // Questions of a server with sessions reach only the clients of sessions.
      if (isLegacy && this.#options.hasPrivateServers && (elicitation || sampling)) return onUnknown();
      const resultText = isLegacy ? discoverResult(handshake.resultText) : withVersions(handshake.resultText);
      return exchange.respond(`{"jsonrpc":"2.0","id":${exchange.idText},"result":${resultText}}`);
    }
    if (method === "subscriptions/listen") return this.#subscriptions.listen(call);
    if (isLegacy && method.startsWith("tasks/")) return exchange.fail(methodNotFound(method));
    const checked = method === "tools/call" ? params.check(request, headers) : undefined;
    if (checked === undefined) this.#forward(call);
    else if (checked instanceof SidecarError) exchange.fail(checked);
    else void this.#forwardChecked(call, checked);
  }

  /** Forwards a call when its headers are checked, unless its client has left meanwhile. Never rejects. */
  async #forwardChecked(call: StatelessCall, checked: Promise<SidecarError | undefined>): Promise<void> {
    const { request, exchange, memory } = call.stateless;
    const held = memory.reserve("requests", textMemoryBytes(request.text));
    if (held === undefined) return exchange.fail(outOfMemory());
    let hasLeft = false;
    exchange.onDisconnect(() => (hasLeft = true));
    const error = await checked;
    held.release();
    if (hasLeft) return;
    this.#guard(exchange, () => {
      if (error === undefined) this.#forward(call);
      else exchange.fail(error);
    });
  }

  #forward(call: StatelessCall): void {
    if (call.target.handshake.era === "legacy") this.#legacyCalls.forward(call);
    else this.#forwardToModern(call);
  }

  #forwardToModern({ stateless, target, client }: StatelessCall): void {
    const { request, envelope, exchange } = stateless;
    const { lane } = target;
    const { bindings } = this.#options;
    const { holder } = client.memory;
    const unsealed = bindings?.requestState.unseal(request, holder) ?? request;
    if (unsealed instanceof SidecarError) return exchange.fail(unsealed);
    const rewrite: Rewrite = (body, response) => {
      const found = findResult(body, exchange.idText, response);
      if (found === undefined) return body;
      bindings?.tasks.add(found, holder);
      return checkResultType(found) ?? bindings?.requestState.seal(found, request, holder) ?? body;
    };
    const { logLevel } = envelope;
    lane.request(client, new StatelessExchange(exchange, { rewrite, addedBytes: 0, logLevel }), unsealed);
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
