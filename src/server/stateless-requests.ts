import type { Context } from "../context.ts";
import { SidecarError } from "../mcp/errors.ts";
import { isAtLeast, type RequestMessage } from "../mcp/message.ts";
import { methodNotFound, removedMethod, type StatelessRequest, taskIdOf } from "./request-check.ts";
import {
  ASKING_METHODS,
  checkResultType,
  createdTask,
  discoverResult,
  findResult,
  requestToLegacyServer,
  serverInfoOf,
  transformToModernClient,
} from "../mcp/translate.ts";
import type { MemoryAccount, MemoryHolder } from "../memory.ts";
import type { UpstreamHandshake } from "../process/port.ts";
import type { SessionKeys } from "../session/ids.ts";
import { Reply } from "../session/reply.ts";
import { AskingCall, type ParkedCalls } from "./asking-calls.ts";
import { holdMessage, internalRequest } from "./call.ts";
import { internalError, sessionOverloaded, shuttingDown } from "./failures.ts";
import type { Lane } from "./lane.ts";
import { sealState, unsealState } from "./sealed-state.ts";
import type { Pool, PooledServer } from "./pool.ts";
import { answersOf, checkQuestions, missingCapability } from "../mcp/questions.ts";
import { Caller } from "../session/session.ts";
import { StatelessSubscriptions } from "./stateless-subscriptions.ts";
import { readFilter } from "../mcp/subscription-filter.ts";
import { TaskOwners, UNKNOWN_TASK } from "./tasks.ts";

function namedTasks(request: RequestMessage): string[] {
  const { method } = request;
  if (method === "subscriptions/listen") {
    const filter = readFilter(request);
    return filter instanceof SidecarError ? [] : [...filter.tasks];
  }
  const id = method.startsWith("tasks/") ? taskIdOf(request) : undefined;
  return id === undefined ? [] : [id];
}

/** MCP 2026-07-28: the requests of clients without sessions, on their way to a server of either era. */
export class StatelessRequests {
  readonly #context: Context;
  readonly #pool: Pool;
  readonly #parked: ParkedCalls | undefined;
  readonly #bindings: { readonly keys: SessionKeys; readonly tasks: TaskOwners } | undefined;
  readonly #clients = new Map<MemoryHolder, Caller>();
  readonly #subscriptions: StatelessSubscriptions;
  #requestCount = 0;

  constructor(context: Context, pool: Pool, parked: ParkedCalls | undefined, keys: SessionKeys) {
    this.#context = context;
    this.#pool = pool;
    this.#parked = parked;
    const { authTokenFile } = context.config;
    // Only the tokens of a file can be of several principals.
    this.#bindings = authTokenFile === undefined ? undefined : { keys, tasks: new TaskOwners() };
    this.#subscriptions = new StatelessSubscriptions(context);
  }

  get status() {
    const { askingCount: servers, era: serverEra = "unknown" } = this.#pool;
    const [clients, subscriptions] = [this.#clients.size, this.#subscriptions.size];
    const parked = this.#parked?.status;
    const asks = parked && { servers, unattributed: this.#context.counters.unattributed, parked };
    return { serverEra, requests: this.#requestCount, clients, subscriptions, asks };
  }

  clientOf(memory: MemoryAccount): Caller {
    const known = this.#clients.get(memory.holder);
    if (known !== undefined) return known;
    if (this.#clients.size >= this.#context.config.maxSessions) this.#forgetOldest();
    const client = new Caller(memory);
    this.#clients.set(memory.holder, client);
    return client;
  }

  handle(stateless: StatelessRequest): void {
    const { request, reply, client } = stateless;
    this.#requestCount++;
    const removed = removedMethod(request);
    if (removed !== undefined) return reply.fail(removed);
    const parked = this.#parked?.find(request, client.memory.holder);
    if (parked instanceof AskingCall) return this.#guard(reply, () => this.#continue(parked, stateless));
    // A server without sessions makes its own states.
    if (parked !== undefined && this.#pool.era === "legacy") return reply.fail(parked);
    this.#find(stateless, (server, handshake) => this.#route(stateless, server, handshake));
  }

  #find({ request, envelope, reply, client, owner }: StatelessRequest, onFound: Parameters<Pool["find"]>[2]): void {
    const found = (server: PooledServer, handshake: UpstreamHandshake): void => {
      if (owner?.isRevoked !== true) this.#guard(reply, () => onFound(server, handshake));
      else reply.fail(new SidecarError("UNAUTHORIZED", "The token was removed while the request waited."));
    };
    this.#pool.find({ owner: client, reply, request }, envelope.declared, found, (error) => reply.refuse(error));
  }

  endAllOf(holder: MemoryHolder): void {
    this.#subscriptions.end(holder);
    this.#parked?.end("its token was removed", holder);
    const client = this.#clients.get(holder);
    if (client !== undefined) this.#forget(client);
    this.#pool.endAllOf(holder);
  }

  #forgetOldest(): void {
    for (const [holder, client] of this.#clients)
      if (client.callsInFlight === 0 && this.#parked?.hasAnyOf(holder) !== true) return this.#forget(client);
  }

  #forget(client: Caller): void {
    this.#clients.delete(client.memory.holder);
    for (const lane of this.#pool.lanes) lane.endCaller(client);
  }

  #route(stateless: StatelessRequest, { lane, params }: PooledServer, handshake: UpstreamHandshake): void {
    const { request, headers, reply, client } = stateless;
    const { method } = request;
    const isLegacy = handshake.era === "legacy";
    const tasks = isLegacy ? undefined : this.#bindings?.tasks;
    if (tasks !== undefined && namedTasks(request).some((id) => tasks.isOfOther(id, client.memory.holder)))
      return reply.fail(new SidecarError("INVALID_PARAMS", UNKNOWN_TASK));
    const isAnsweredHere = method === "server/discover" || method === "subscriptions/listen";
    if (isAnsweredHere && this.#context.draining.aborted) return reply.fail(shuttingDown());
    if (method === "server/discover") return reply.answer("result", discoverResult(handshake.resultText, handshake.era));
    if (method === "subscriptions/listen") return this.#subscriptions.listen(stateless, lane);
    if (isLegacy && method.startsWith("tasks/")) return reply.fail(methodNotFound(method));
    const checked = method === "tools/call" ? params.check(request, headers) : undefined;
    if (checked === undefined) this.#forward(stateless, lane, handshake);
    else if (checked instanceof SidecarError) reply.fail(checked);
    else void this.#forwardChecked(stateless, checked);
  }

  /** Never rejects. */
  async #forwardChecked(stateless: StatelessRequest, checked: Promise<SidecarError | undefined>): Promise<void> {
    const { request, reply, client } = stateless;
    const { maxSessionRequests } = this.#context.config;
    if (client.callsInFlight >= maxSessionRequests) return reply.fail(sessionOverloaded(maxSessionRequests));
    const held = holdMessage(client.memory, request.text);
    client.beginCall();
    const error = await checked.catch((defect: unknown) => {
      this.#context.defects.note("check of headers", defect);
      return internalError(false);
    });
    held.release();
    client.endCall(this.#context.nowMs());
    this.#guard(reply, () => {
      if (error !== undefined) reply.fail(error);
      // The server may have been replaced by one of the other era.
      else if (!reply.isFinished) this.#find(stateless, ({ lane }, handshake) => this.#forward(stateless, lane, handshake));
    });
  }

  #forward(stateless: StatelessRequest, lane: Lane, handshake: UpstreamHandshake): void {
    if (handshake.era === "legacy") this.#forwardToLegacy(stateless, lane, handshake);
    else this.#forwardToModern(stateless, lane);
  }

  #forwardToModern({ request, envelope, reply, client, owner }: StatelessRequest, lane: Lane): void {
    const bindings = this.#bindings;
    const { declared, logLevel } = envelope;
    const { holder } = client.memory;
    const unsealed = bindings === undefined ? request : unsealState(bindings.keys, request, owner);
    if (unsealed instanceof SidecarError) return reply.fail(unsealed);
    reply.logLevel = logLevel;
    reply.transforms.push((text, idText, response) => {
      const found = findResult(text, idText, response);
      if (found === undefined) return text;
      bindings?.tasks.add(createdTask(found), holder);
      const error = checkResultType(found) ?? checkQuestions(found, request.method, declared);
      return error ?? (bindings && sealState(bindings.keys, found, request, owner)) ?? text;
    });
    lane.request(client, reply, unsealed);
  }

  #forwardToLegacy(stateless: StatelessRequest, lane: Lane, handshake: UpstreamHandshake): void {
    const { request, envelope, reply, client } = stateless;
    const parked = this.#parked;
    // A call that waits for this request does not come here.
    const unknown = parked?.find(request, client.memory.holder);
    if (unknown instanceof SidecarError) return reply.fail(unknown);
    this.#setLevel(stateless, lane);
    const mayAsk = ASKING_METHODS.has(request.method);
    const asking = mayAsk ? lane.routing.asking : undefined;
    const askable =
      asking === undefined || parked === undefined
        ? { declared: envelope.declared, missing: 0 }
        : new AskingCall(asking.questions, parked, stateless);
    if (mayAsk) reply.askable = askable;
    const transform = transformToModernClient(request, askable, serverInfoOf(handshake.resultText));
    reply.transforms.push((text, idText, response) => missingCapability(text, askable.missing) ?? transform(text, idText, response));
    lane.request(client, reply, requestToLegacyServer(request, envelope));
  }

  #continue(parked: AskingCall, stateless: StatelessRequest): void {
    const { request, reply, client } = stateless;
    const { maxSessionRequests } = this.#context.config;
    const answers = answersOf(request);
    const lane = this.#pool.lanes.find(({ calls }) => calls === parked.calls);
    if (lane === undefined) return reply.fail(internalError(true));
    const isOverloaded = client.callsInFlight >= maxSessionRequests;
    const refusal = isOverloaded ? sessionOverloaded(maxSessionRequests) : lane.calls.inputRoomError([...answers.values()].join(""));
    if (refusal !== undefined) return reply.fail(refusal);
    this.#parked?.remove(parked);
    this.#setLevel(stateless, lane);
    parked.resume(stateless, answers);
  }

  /** A server with sessions has one level for all: the most verbose that was ever wanted. Each request gets its own part of the log. */
  #setLevel({ envelope: { logLevel: level }, reply, client }: StatelessRequest, lane: Lane): void {
    reply.logLevel = level ?? "off";
    const wanted = lane.routing.state.levelOf(client);
    if (level === undefined || (wanted !== undefined && isAtLeast(level, wanted))) return;
    if (lane.calls.capabilities["logging"] === undefined) return;
    const unread = new Reply(this.#context, "0", this.#context.nowMs(), { finish: () => undefined });
    lane.request(client, unread, internalRequest("logging/setLevel", { level }));
  }

  #guard(reply: Reply, handle: () => void): void {
    this.#context.defects.guard("client request", handle, () => reply.fail(internalError(true)));
  }
}
