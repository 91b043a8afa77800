import type { Context } from "../context.ts";
import { applyEdits, setMembers } from "../json/edit.ts";
import { findPath, stringOf } from "../json/find.ts";
import { SidecarError } from "../mcp/errors.ts";
import type { RequestMessage } from "../mcp/message.ts";
import { methodNotFound, removedMethod, taskIdOf } from "./request-check.ts";
import { checkResultType, findResult, type FoundResult } from "../mcp/result.ts";
import { MODERN_PROTOCOL_VERSIONS } from "../mcp/versions.ts";
import type { MemoryHolder } from "../memory.ts";
import type { ServerEra } from "../process/port.ts";
import type { SessionKeys } from "../session/ids.ts";
import type { Exchange, Rewrite } from "../session/session.ts";
import { AskingExchange, type ParkedCalls } from "./asking-exchange.ts";
import { StatelessExchange } from "./asks.ts";
import { holdMessage } from "./call.ts";
import { internalError, sessionOverloaded, shuttingDown } from "./failures.ts";
import { discoverResult, LegacyCalls } from "./legacy-calls.ts";
import { RequestState } from "./request-state.ts";
import type { ServerEras } from "./server-eras.ts";
import { checkQuestions } from "./session-questions.ts";
import { type StatelessCall, type StatelessClient, StatelessClients, type StatelessRequest, type Target } from "./stateless-client.ts";
import { StatelessSubscriptions } from "./stateless-subscriptions.ts";
import { readFilter } from "./subscriptions.ts";
import { TaskOwners, UNKNOWN_TASK } from "./tasks.ts";

const TASK = '"task"';
const TASK_PATHS = [["taskId"], ["task", "taskId"]];

/** Returns the task that a result begins (MCP 2026-07-28, extension io.modelcontextprotocol/tasks); undefined if it begins none. */
function createdTask({ text, result, resultType }: FoundResult): string | undefined {
  if (resultType === undefined || text.slice(resultType.start, resultType.end) !== TASK) return undefined;
  return stringOf(
    text,
    TASK_PATHS.map((path) => findPath(text, result.start, path)).find((span) => span !== undefined),
  );
}

/** Returns the tasks that a request names: in its `taskId`, or in the filter of a subscription. */
function namedTasks(request: RequestMessage): string[] {
  const { method } = request;
  if (method === "subscriptions/listen") {
    const filter = readFilter(request);
    return filter instanceof SidecarError ? [] : [...filter.tasks];
  }
  const id = method.startsWith("tasks/") ? taskIdOf(request) : undefined;
  return id === undefined ? [] : [id];
}

export interface StatelessStatus {
  readonly serverEra: ServerEra | "unknown";
  /** All requests so far. */
  readonly requests: number;
  readonly clients: number;
  readonly subscriptions: number;
  /** The questions of a server with sessions; undefined if clients cannot be asked. */
  readonly asks:
    | {
        /** The processes that may ask. */
        readonly servers: number;
        readonly parked: ParkedCalls["status"];
        /** Questions that were refused because their call could not be found out. */
        readonly unattributed: number;
      }
    | undefined;
}

/** The requests of clients without sessions, on their way to a server of either era (MCP 2026-07-28). */
export class StatelessRequests {
  readonly #context: Context;
  readonly #eras: ServerEras;
  /** The calls whose clients were asked by a server with sessions. Undefined if clients cannot be asked. */
  readonly #parked: ParkedCalls | undefined;
  /** The clients of states and tasks; undefined if there is at most one token. */
  readonly #bindings: { readonly requestState: RequestState; readonly tasks: TaskOwners } | undefined;
  readonly #clients: StatelessClients;
  readonly #legacyCalls: LegacyCalls;
  readonly #subscriptions: StatelessSubscriptions;
  #requestCount = 0;

  constructor(context: Context, eras: ServerEras, parked: ParkedCalls | undefined, keys: SessionKeys) {
    this.#context = context;
    this.#eras = eras;
    this.#parked = parked;
    const { authTokenFile, maxSessions } = context.config;
    // Only the tokens of a file can be of several principals.
    this.#bindings = authTokenFile === undefined ? undefined : { requestState: new RequestState(keys), tasks: new TaskOwners() };
    const isAsked = ({ memory }: StatelessClient): boolean => parked?.hasAnyOf(memory.holder) === true;
    this.#clients = new StatelessClients(maxSessions, isAsked, (client) => eras.endCaller(client));
    this.#legacyCalls = new LegacyCalls(context, parked);
    this.#subscriptions = new StatelessSubscriptions(context);
  }

  get status(): StatelessStatus {
    const [eras, parked] = [this.#eras, this.#parked];
    const [clients, subscriptions] = [this.#clients.size, this.#subscriptions.size];
    const { asking } = eras;
    const asks = asking && parked && { servers: asking.size, parked: parked.status, unattributed: asking.unattributed };
    return { serverEra: eras.era ?? "unknown", requests: this.#requestCount, clients, subscriptions, asks };
  }

  /** Handles one request. It is answered exactly once. */
  handle(stateless: StatelessRequest): void {
    const { request, exchange, memory } = stateless;
    this.#requestCount++;
    const removed = removedMethod(request);
    if (removed !== undefined) return exchange.fail(removed);
    const client = this.#clients.use(memory);
    const parked = this.#parked?.find(request, memory.holder);
    if (parked instanceof AskingExchange) return this.#guard(exchange, () => this.#legacyCalls.continue(parked, stateless, client));
    // A server without sessions makes its own states.
    if (parked !== undefined && this.#eras.era === "legacy") return exchange.fail(parked);
    this.#find({ stateless, client }, (call) => this.#route(call));
  }

  /** Finds the lane for a request. Its token may be removed meanwhile. */
  #find({ stateless, client }: Pick<StatelessCall, "stateless" | "client">, onFound: (call: StatelessCall) => void): void {
    const { request, envelope, exchange, owner } = stateless;
    const fail = (error: SidecarError): void => exchange.fail(error);
    const found = (target: Target): void => {
      if (owner?.isRevoked === true) fail(new SidecarError("UNAUTHORIZED", "The token was removed while the request waited."));
      else this.#guard(exchange, () => onFound({ stateless, target, client }));
    };
    this.#eras.find({ owner: client, exchange, request }, envelope.declared, found, (error) => this.#eras.refuse(exchange, error));
  }

  /** Ends the requests and subscriptions of a holder. */
  endAllOf(holder: MemoryHolder): void {
    this.#subscriptions.end(holder);
    this.#parked?.end("its token was removed", holder);
    this.#clients.end(holder);
    this.#eras.asking?.endAllOf(holder);
  }

  /** Ends all subscriptions gracefully. */
  drain(): void {
    this.#subscriptions.end();
    this.#parked?.close();
  }

  #route(call: StatelessCall): void {
    const { request, headers, exchange } = call.stateless;
    const { handshake, params } = call.target;
    const { method } = request;
    const isLegacy = handshake.era === "legacy";
    if (!isLegacy && this.#namesTaskOfOther(call)) return exchange.fail(new SidecarError("INVALID_PARAMS", UNKNOWN_TASK));
    const isAnsweredHere = method === "server/discover" || method === "subscriptions/listen";
    if (isAnsweredHere && this.#context.draining.aborted) return exchange.fail(shuttingDown(method, false));
    if (method === "server/discover") {
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
    const { stateless, client } = call;
    const { request, exchange } = stateless;
    const { maxSessionRequests } = this.#context.config;
    if (client.callsInFlight >= maxSessionRequests) return exchange.fail(sessionOverloaded(maxSessionRequests));
    const held = holdMessage(client.memory, request.text);
    client.beginCall();
    let hasLeft = false;
    exchange.onDisconnect(() => (hasLeft = true));
    let outcome: SidecarError | undefined | "defect" = "defect";
    try {
      outcome = await checked;
    } catch (error) {
      this.#context.defects.recover("check of headers", error, () => exchange.fail(internalError(false)));
    } finally {
      held.release();
      client.endCall();
    }
    if (hasLeft || outcome === "defect") return;
    const error = outcome;
    this.#guard(exchange, () => {
      // The server may have been replaced by one of the other era.
      if (error === undefined) this.#find(call, (current) => this.#forward(current));
      else exchange.fail(error);
    });
  }

  #forward(call: StatelessCall): void {
    if (call.target.handshake.era === "legacy") this.#legacyCalls.forward(call);
    else this.#forwardToModern(call);
  }

  #forwardToModern({ stateless, target, client }: StatelessCall): void {
    const { request, envelope, exchange, owner } = stateless;
    const { lane } = target;
    const bindings = this.#bindings;
    const { declared, logLevel } = envelope;
    const { holder } = client.memory;
    const unsealed = bindings?.requestState.unseal(request, owner) ?? request;
    if (unsealed instanceof SidecarError) return exchange.fail(unsealed);
    const rewrite: Rewrite = (body, response) => {
      const found = findResult(body, exchange.idText, response);
      if (found === undefined) return body;
      bindings?.tasks.add(createdTask(found), holder);
      const error = checkResultType(found) ?? checkQuestions(found, request.method, declared);
      return error ?? bindings?.requestState.seal(found, request, owner) ?? body;
    };
    lane.request(client, new StatelessExchange(exchange, { rewrite, addedBytes: 0, logLevel }), unsealed);
  }

  #namesTaskOfOther({ stateless, client }: StatelessCall): boolean {
    const bindings = this.#bindings;
    return bindings !== undefined && namedTasks(stateless.request).some((id) => bindings.tasks.isOfOther(id, client.memory.holder));
  }

  #guard(exchange: Exchange, handle: () => void): void {
    try {
      handle();
    } catch (error) {
      this.#context.defects.recover("client request", error, () =>
        exchange.fail(new SidecarError("INTERNAL_ERROR", "The sidecar could not handle this request.", { sent: true })),
      );
    }
  }
}

/** Returns a server's `DiscoverResult` with the revisions that the sidecar serves. */
function withVersions(resultText: string): string {
  return applyEdits(resultText, setMembers(resultText, 0, [["supportedVersions", JSON.stringify(MODERN_PROTOCOL_VERSIONS)]]));
}
