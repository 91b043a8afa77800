import { SidecarError } from "../mcp/errors.ts";
import type { Message, NotificationMessage, Outgoing, OverlongLine, RequestMessage, ResponseMessage } from "../mcp/message.ts";
import { cancellationToServer, cancelledIdText, progressToClient, responseToClient } from "../mcp/rewrite.ts";
import { progressTokenOf, requestIdOf } from "../mcp/server-line.ts";
import { refusesRevision } from "../mcp/versions.ts";
import type { MemoryHolder } from "../memory.ts";
import type { Counters } from "../observe/counters.ts";
import { Defects, type Log } from "../observe/log.ts";
import type { Upstream, UpstreamExit, UpstreamHandshake, UpstreamInput, UpstreamListener } from "../process/port.ts";
import type { Caller, Exchange, Session, SessionLane } from "../session/session.ts";
import type { CallTable } from "./call-table.ts";
import { type ClientCall, extend, isSent, type LaneLimits } from "./call.ts";
import type { RetryMode } from "../config/options.ts";
import { Dispatch, type HeldRequest, holdUntilReady, type LanePolicy } from "./dispatch.ts";
import { internalError, invalidResponse, outOfMemory, responseTooLarge, sessionEnded, shuttingDown, upstreamExited } from "./failures.ts";
import { HangWatch } from "./hang-watch.ts";
import { type InitializeRequest, InitializeRequests } from "./initialize-requests.ts";
import { SessionCapabilities } from "./initialize.ts";
import { type RequestQueue, Retries } from "./queue.ts";
import { answerHere, DropLog, refuseOverlong, type Routing, type RoutingAccess } from "./routing.ts";
import { isCreateTaskResult } from "./tasks.ts";
import { ServerTools } from "./tools.ts";

/** Rejects requests of a client that were not sent, the newest first, until this much memory is free. @returns the bytes that are free. */
function freeUnsent(calls: CallTable, queue: RequestQueue, bytes: number, holder: MemoryHolder): number {
  const error = outOfMemory("The memory of this client is needed for others.");
  let freeBytes = 0;
  for (const { held } of [...queue.entries].toReversed()) {
    if (freeBytes >= bytes) break;
    if (held?.holder !== holder) continue;
    freeBytes += held.memory.bytes;
    held.fail(error);
  }
  const unsent = [...calls.values()].filter(
    (call): call is ClientCall => call.origin === "client" && call.caller.memory.holder === holder && !isSent(call),
  );
  for (const call of unsent.toReversed()) {
    if (freeBytes >= bytes) break;
    freeBytes += call.memory?.bytes ?? 0;
    calls.giveUp(call, "room in the memory budget", error);
  }
  return freeBytes;
}

/**
 * Cancels the request that a client's `notifications/cancelled` names (MCP 2025-11-25, basic/utilities/cancellation). Several requests of
 * one caller may share an id. Such a cancellation is ambiguous, and is ignored.
 */
function cancelByClient(dispatch: Dispatch, caller: Caller, notification: NotificationMessage, log: Log): void {
  const { calls } = dispatch;
  const idText = cancelledIdText(notification);
  const [call, another] = calls
    .values()
    .filter((each) => each.origin === "client" && each.caller === caller && each.exchange.idText === idText);
  if (call === undefined || another !== undefined) {
    log.debug({ method: "notifications/cancelled" }, "cancellation ignored: unknown or ambiguous request id");
    return;
  }
  // The sidecar's own cancellation is shorter. It is sent if there is no room for the client's.
  const hasRoom = dispatch.roomError(notification.text) === undefined;
  calls.giveUp(call, "cancelled by the client", "dismissed", hasRoom ? cancellationToServer(notification, call.wireId) : undefined);
}

/** Delivers `notifications/progress` to its call, or its task. @returns false if no client receives it. */
function deliverProgress(calls: CallTable, message: NotificationMessage, nowMs: number): boolean {
  return deliverToCall(calls, message, nowMs) || calls.tasks.deliverProgress(message);
}

/**
 * Delivers progress to the call that owns the token, with the client's own token. Renews the time of the call. See MCP
 * 2025-11-25, basic/utilities/progress and basic/lifecycle, timeouts.
 *
 * @returns false if no client receives it.
 */
function deliverToCall(calls: CallTable, message: NotificationMessage, nowMs: number): boolean {
  const call = calls.getWritten(progressTokenOf(message));
  if (call?.progressTokenText === undefined) return false;
  extend(call, nowMs);
  const isShown = call.exchange.emit(progressToClient(message, call.progressTokenText));
  if (isShown) call.mustNotRestart = true;
  return isShown;
}

interface ServerResponsesOptions {
  readonly dispatch: Dispatch;
  readonly dropped: DropLog;
  readonly retries: Retries;
  readonly routing: Pick<Routing, "onUnfinished">;
  readonly defects: Defects;
  readonly maxLineBytes: number;
}

/** The responses of the server, on their way to the exchanges of their calls. */
class ServerResponses {
  readonly #options: ServerResponsesOptions;
  /** True if this generation has sent an error without an id that answers no call: most likely, it answers notifications in that way. */
  #answersNotifications = false;

  constructor(options: ServerResponsesOptions) {
    this.#options = options;
  }

  onResponse(response: ResponseMessage): void {
    const { dispatch, dropped, defects } = this.#options;
    const { calls } = dispatch;
    const { isError } = response;
    if (this.#isUnfinished(response)) return;
    const id = response.id ?? (isError ? this.#onlyId() : undefined);
    const call = calls.takeAnswered(id, isError ? "errors" : "results");
    if (call === undefined) return dropped.answer(id, calls.takeAbandoned(id));
    if (isCreateTaskResult(response)) calls.tasks.add(call, response);
    try {
      call.exchange.respond(responseToClient(response, call.exchange.idText), response);
    } catch (error) {
      defects.recover("server response", error, () => call.exchange.fail(internalError(true)));
    }
  }

  /** Must be called when the server is lost. */
  onLost(): void {
    this.#answersNotifications = false;
  }

  /**
   * Returns the id of the call that an error without an id answers: the only call of the only principal. Undefined if the error may be about
   * something else that the server was sent.
   */
  #onlyId(): number | undefined {
    const { dispatch } = this.#options;
    const only = dispatch.calls.findOnly();
    const isClear = only?.origin === "client" && dispatch.isOnlySender(only) && !dispatch.calls.hasUnreadNotification;
    if (isClear && !this.#answersNotifications) return only.wireId;
    this.#answersNotifications = true;
    return undefined;
  }

  /** True if the call of the response goes on, or was failed. */
  #isUnfinished(response: ResponseMessage): boolean {
    const { dispatch, routing, defects } = this.#options;
    const call = routing.onUnfinished === undefined ? undefined : dispatch.calls.getWritten(response.id);
    if (call?.origin !== "client") return false;
    try {
      return routing.onUnfinished?.(call, response) === true;
    } catch (error) {
      const fail = (): void => dispatch.calls.giveUp(call, "defect", internalError(true));
      defects.recover("server response", error, fail);
      return true;
    }
  }

  /** Fails the call that an invalid response answers. @returns false if there is none. */
  onInvalidResponse(id: number, reason: string): boolean {
    const { dispatch, retries } = this.#options;
    const call = dispatch.calls.takeAnswered(id, "UPSTREAM_INVALID_RESPONSE");
    call?.exchange.fail(invalidResponse(call.method, reason, retries.effectOf(call)));
    return call !== undefined;
  }

  onOverlongLine(line: OverlongLine): void {
    const { dispatch, dropped, retries, maxLineBytes } = this.#options;
    const { calls } = dispatch;
    const id = line.hasMethod || line.idText === undefined ? undefined : requestIdOf(line.idText);
    const written = calls.getWritten(id);
    // Text before a message may be a client's, and so may the message.
    if (line.hasTextBefore && (written === undefined || !dispatch.isOnlySender(written))) return dropped.overlongLine(line, undefined);
    const call = calls.takeAnswered(id, "UPSTREAM_RESPONSE_TOO_LARGE");
    dropped.overlongLine(line, call);
    const limitBytes = line.isForMemory ? undefined : maxLineBytes;
    if (call !== undefined) call.exchange.fail(responseTooLarge(call.method, line.bytes, limitBytes, retries.effectOf(call)));
    else if (!line.hasMethod) dropped.answer(id, calls.takeAbandoned(id));
    else if (line.idText !== undefined) dispatch.sendInternal(refuseOverlong(line.idText, line.bytes));
  }
}

export interface LaneOptions<Routed extends Routing> {
  readonly upstream: Upstream;
  readonly limits: LaneLimits;
  /** The requests that are sent again if the server exits before it answers them. */
  readonly retry: RetryMode;
  readonly counters: Counters;
  readonly log: Log;
  readonly nowMs: () => number;
  /** Ends a session that cannot continue. Calls `endCaller` of this lane in turn. */
  readonly endSession: (session: Session) => void;
  readonly createRouting: (access: RoutingAccess) => Routed;
  /** Undefined if there are no rules. */
  readonly policy?: LanePolicy | undefined;
}

/** One supervised server, its requests in flight, and its sessions. */
export class Lane<Routed extends Routing = Routing> implements SessionLane, UpstreamListener {
  readonly limits: LaneLimits;
  readonly #counters: Counters;
  readonly #log: Log;
  readonly #nowMs: () => number;
  readonly #dropped: DropLog;
  readonly #policy: LanePolicy | undefined;
  readonly #dispatch: Dispatch;
  readonly #calls: CallTable;
  readonly routing: Routed;
  readonly #retries: Retries;
  readonly #responses: ServerResponses;
  readonly tools: ServerTools;
  readonly #capabilities: SessionCapabilities;
  readonly #hangWatch: HangWatch;
  readonly #initializing: InitializeRequests;
  #handshake: UpstreamHandshake | undefined;
  #isDraining = false;

  constructor({ upstream, limits, retry, counters, log, nowMs, endSession, createRouting, policy }: LaneOptions<Routed>) {
    [this.limits, this.#policy, this.#counters, this.#log, this.#nowMs] = [limits, policy, counters, log, nowMs];
    const dropped = (this.#dropped = new DropLog(log, counters, nowMs));
    const defects = new Defects(log, counters);
    const retries = (this.#retries = new Retries(retry, (toolName) => this.tools.isReadOnly(toolName)));
    const dispatch = new Dispatch({ upstream, limits, retries, counters, log, nowMs, onDue: (atMs) => this.#onDue(atMs) });
    [this.#dispatch, this.#calls] = [dispatch, dispatch.calls];
    const watcher = policy?.needsTools === true ? policy : undefined;
    this.tools = new ServerTools({ dispatch, upstream, retry, watcher, defects, log, nowMs });
    this.#capabilities = new SessionCapabilities({ calls: dispatch.calls, log, endSession });
    const access = { dispatch, dropped, tools: this.tools, nowMs, requestTimeoutMs: limits.requestTimeoutMs };
    const routing = (this.routing = createRouting(access));
    this.#responses = new ServerResponses({ dispatch, dropped, retries, routing, defects, maxLineBytes: limits.maxLineBytes });
    this.#initializing = new InitializeRequests({ dispatch, limits, routing, counters, defects, handshake: () => this.#handshake });
    this.#hangWatch = new HangWatch({ dispatch, upstream, limits, isWaitingForClient: () => routing.isWaitingForClient, nowMs });
    this.#calls.onTimeout = (call) => this.#hangWatch.onTimeout(call);
    this.#calls.onAbandoned = (call) => this.#hangWatch.onAbandoned(call);
  }

  get load(): Dispatch["load"] {
    return this.#dispatch.load;
  }

  /** The handshake of the current or the last generation; undefined before the first. */
  get lastHandshake(): UpstreamHandshake | undefined {
    return this.#dispatch.internal.lastHandshake;
  }

  /** Holds a request until the server is ready for the first time or again, and waits for no answer of a client. */
  whenReady(held: HeldRequest<Pick<Caller, "memory">>): void {
    if (this.#isDraining) held.onFailed(shuttingDown(held.request.method, false));
    else if (this.#handshake !== undefined && !this.#dispatch.queue.isBlockedBy("question")) held.onReady();
    else holdUntilReady(this.#dispatch, this.limits.holdTimeoutMs, held);
  }

  /** Answers `initialize` from the server's handshake, once it is done. */
  initialize(initialize: InitializeRequest): void {
    this.#initializing.add(initialize, this.#isDraining ? shuttingDown("initialize", false) : undefined);
  }

  request(caller: Caller, clientExchange: Exchange, request: RequestMessage): void {
    const exchange = this.#wrap(clientExchange, request.method);
    const refusal = this.#isDraining ? shuttingDown(request.method, false) : this.#dispatch.refusal(caller, request.text);
    if (refusal !== undefined) return this.#dispatch.refuse(exchange, refusal);
    // Last: a request that the lane rejects must not count towards a rate.
    const limits = this.#policy?.admit(caller, request);
    if (limits instanceof SidecarError) return this.#dispatch.refuse(exchange, limits);
    if (this.#dispatch.queue.isBlockedBy("tools")) this.tools.onWaiting();
    const decision = this.routing.onClientRequest(caller, request);
    if (decision?.kind === "answer") return answerHere(this.#counters, exchange, decision);
    const { onSettled, wrap, request: sent = request, limits: own } = decision ?? {};
    this.#dispatch.carry(caller, wrap?.(exchange) ?? exchange, sent, onSettled, limits ?? own);
  }

  refuse(exchange: Exchange, error: SidecarError): void {
    // In a batch, it takes room from the responses of calls.
    this.#dispatch.refuse(this.#wrap(exchange, "tools/call"), error);
  }

  notify(session: Session, notification: NotificationMessage): SidecarError | undefined {
    const refusal = this.#policy?.admit(session, notification);
    if (refusal instanceof SidecarError) return refusal;
    const isCancellation = notification.method === "notifications/cancelled";
    if (isCancellation) cancelByClient(this.#dispatch, session, notification, this.#log);
    const text = isCancellation ? undefined : this.routing.onClientNotification(notification);
    if (text === undefined || text instanceof SidecarError) return text;
    return this.#dispatch.carryNotification(session, text, notification.method);
  }

  answer(session: Session, response: ResponseMessage): SidecarError | undefined {
    return this.routing.onClientResponse(session, response);
  }

  addSession(session: Session, initialize: RequestMessage): void {
    this.#capabilities.add(session);
    this.routing.onListener(session, initialize);
  }

  announceLists(session: Session): void {
    this.#capabilities.announceTo(session);
  }

  /** Adds a caller without a session that gets the messages for all clients, until `endCaller`. */
  addListener(caller: Caller): void {
    this.routing.onListener(caller);
  }

  endCaller(caller: Caller): void {
    this.routing.onCallerEnd(caller);
    const calls = this.#calls.values().filter((call) => call.origin === "client" && call.caller === caller);
    this.#calls.giveUpAll(calls, "session ended", (call) => sessionEnded(...this.#retries.outcomeOf(call)));
    this.#capabilities.delete(caller);
    this.#calls.tasks.endCaller(caller);
  }

  /** Rejects unsent requests of a client until this much memory is free. @returns the bytes that are free. */
  freeUnsent(bytes: number, holder: MemoryHolder): number {
    return freeUnsent(this.#calls, this.#dispatch.queue, bytes, holder);
  }

  /** Rejects new requests from now on, and resolves when the last request that is in flight or queued has ended. */
  drain(): Promise<void> {
    this.#isDraining = true;
    return this.#calls.open.whenEmpty();
  }

  /** Rejects new requests from now on, and fails all requests that are in flight or queued. */
  close(reason: "shutdown" | "server lost" = "shutdown"): void {
    this.tools.close();
    this.#calls.giveUpAll(this.#calls.values(), reason, (call) =>
      reason === "shutdown" ? shuttingDown(...this.#retries.outcomeOf(call)) : this.#dispatch.errors.notReady(call),
    );
    if (this.#isDraining) this.#initializing.failAll(shuttingDown("initialize", false));
    this.#isDraining = true;
    this.#dispatch.close();
  }

  onStarted(input: UpstreamInput): void {
    this.#dispatch.onStarted(input);
  }

  onReady(handshake: UpstreamHandshake): void {
    this.#handshake = handshake;
    // Such as `notifications/initialized`, which the server may answer with an error.
    this.#calls.onNotification();
    this.#dispatch.internal.onReady(handshake);
    this.tools.onReady(handshake);
    // The lists are announced before any held `initialize` is answered: those clients have seen no earlier generation.
    const changes = this.#capabilities.change(this.routing.initialize.capabilities(handshake), handshake.generation);
    for (const change of changes) this.routing.onServerNotification(change);
    // Calls that are sent now come after the handshake, which is the server's last message.
    this.#hangWatch.onReady(this.#nowMs());
    this.#dispatch.queue.open(() => this.routing.onReady(handshake));
  }

  onRefused(response: ResponseMessage): void {
    if (!this.routing.initialize.isRefusalFinal) return;
    this.#initializing.onRefused(response);
    // After a restart, this is the client's own request again. Later generations would refuse it too.
    if (refusesRevision(response)) this.#capabilities.endAll();
  }

  onMessage(message: Message): void {
    this.#hangWatch.heard();
    if (message.kind === "response") this.#responses.onResponse(message);
    else if (message.kind === "notification") this.#onNotification(message);
    else this.routing.onServerRequest(message);
  }

  onResponseAfterText(response: ResponseMessage): boolean {
    const call = this.#calls.getWritten(response.id);
    if (call === undefined || !this.#dispatch.isOnlySender(call)) return false;
    this.onMessage(response);
    return true;
  }

  onInvalidResponse(id: number, reason: string): void {
    if (this.#responses.onInvalidResponse(id, reason)) this.#hangWatch.heard();
  }

  onOverlongLine(line: OverlongLine): void {
    this.#hangWatch.heard();
    this.#responses.onOverlongLine(line);
  }

  onLost(exit: UpstreamExit, unwritten: readonly Outgoing[]): void {
    this.#handshake = undefined;
    this.#hangWatch.onLost();
    this.tools.onLost();
    this.#responses.onLost();
    this.routing.onLost();
    this.#dispatch.onLost(unwritten);
    const count = this.#calls.failWritten((call) => upstreamExited(call.method, exit, this.#retries.effectOf(call)));
    if (count > 0) this.#log.warn({ generation: exit.generation, count, reason: exit.reason }, "requests in flight failed");
  }

  onDefect(): void {
    this.#calls.giveUpAll(this.#calls.values(), "defect", (call) => internalError(isSent(call)));
  }

  #wrap(exchange: Exchange, method: string): Exchange {
    return this.#policy?.wrap(exchange, method, () => this.tools.onChanged()) ?? exchange;
  }

  #onNotification(message: NotificationMessage): void {
    if (message.method !== "notifications/progress") {
      if (message.method === "notifications/tools/list_changed") this.tools.onChanged();
      return this.routing.onServerNotification(message);
    }
    if (!deliverProgress(this.#calls, message, this.#nowMs())) this.#dropped.notification(message.method);
  }

  #onDue(nowMs: number): number {
    // The time in which a person answers the server does not count.
    if (this.routing.isWaitingForClient) this.#calls.extend(nowMs);
    return Math.min(this.routing.expire(nowMs), this.#hangWatch.tick(nowMs));
  }
}
