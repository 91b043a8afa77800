import type { Counters } from "../observability/counters.ts";
import { Defects } from "../observability/defects.ts";
import { SidecarError } from "../errors.ts";
import type { Message, NotificationMessage, OverlongLine, RequestMessage, ResponseMessage } from "../protocol/message.ts";
import type { Outgoing } from "../protocol/outgoing.ts";
import { refusesRevision } from "../protocol/revision-refusal.ts";
import type { Log } from "../observability/log.ts";
import type { RetryMode } from "./calls/retry-mode.ts";
import type { MemoryHolder } from "../memory/memory-budget.ts";
import type { CallTable } from "./calls/call-table.ts";
import { freeUnsent } from "./calls/free-unsent.ts";
import { isSent } from "./calls/call.ts";
import { cancelByClient } from "./calls/cancellation.ts";
import { Dispatch } from "./dispatch.ts";
import { DropLog } from "./routing/drop-log.ts";
import type { Exchange } from "../sessions/exchange.ts";
import { internalError, sessionEnded, shuttingDown, upstreamExited } from "./failures.ts";
import { HangWatch } from "./hang-watch.ts";
import { type InitializeRequest, InitializeRequests } from "./handshake/initialize-requests.ts";
import { type HeldRequest, holdUntilReady } from "./queue/held-until-ready.ts";
import type { LaneLimits } from "./lane-limits.ts";
import type { LanePolicy } from "./lane-policy.ts";
import { answerHere, type RoutingAccess, type Routing } from "./routing/routing.ts";
import { deliverProgress } from "./calls/progress.ts";
import { Retries } from "./calls/retries.ts";
import type { Caller } from "../sessions/caller.ts";
import { ServerResponses } from "./server-responses.ts";
import type { Session, SessionLane } from "../sessions/session.ts";
import { ServerTools } from "./tools/server-tools.ts";
import { SessionCapabilities } from "./handshake/session-capabilities.ts";
import type { Upstream, UpstreamExit, UpstreamHandshake, UpstreamInput, UpstreamListener } from "../upstream/port.ts";

export interface LaneOptions {
  readonly upstream: Upstream;
  readonly limits: LaneLimits;
  /** The requests that are sent again if the server exits before it answers them. */
  readonly retry: RetryMode;
  readonly counters: Counters;
  readonly log: Log;
  readonly nowMs: () => number;
  /** Ends a session that cannot continue. Calls `endCaller` of this lane in turn. */
  readonly endSession: (session: Session) => void;
  readonly createRouting: (access: RoutingAccess) => Routing;
  /** Undefined if there are no rules. */
  readonly policy?: LanePolicy | undefined;
}

/** One supervised server, its requests in flight, and its sessions. */
export class Lane implements SessionLane, UpstreamListener {
  readonly limits: LaneLimits;
  readonly #counters: Counters;
  readonly #log: Log;
  readonly #nowMs: () => number;
  readonly #dropped: DropLog;
  readonly #policy: LanePolicy | undefined;
  readonly #dispatch: Dispatch;
  readonly #calls: CallTable;
  readonly #routing: Routing;
  readonly #retries: Retries;
  readonly #responses: ServerResponses;
  readonly tools: ServerTools;
  readonly #capabilities: SessionCapabilities;
  readonly #hangWatch: HangWatch;
  readonly #initializing: InitializeRequests;
  #handshake: UpstreamHandshake | undefined;
  #isDraining = false;

  constructor({ upstream, limits, retry, counters, log, nowMs, endSession, createRouting, policy }: LaneOptions) {
    [this.limits, this.#policy, this.#counters, this.#log, this.#nowMs] = [limits, policy, counters, log, nowMs];
    const dropped = (this.#dropped = new DropLog(log, counters, nowMs));
    const defects = new Defects(log, counters);
    const retries = (this.#retries = new Retries(retry, (toolName) => this.tools.isReadOnly(toolName)));
    const dispatch = new Dispatch({ upstream, limits, retries, counters, log, nowMs, onDue: (atMs) => this.#onDue(atMs) });
    [this.#dispatch, this.#calls] = [dispatch, dispatch.calls];
    const watcher = policy?.needsTools === true ? policy : undefined;
    this.tools = new ServerTools({ dispatch, upstream, retry, watcher, defects, log, nowMs });
    this.#capabilities = new SessionCapabilities({ calls: dispatch.calls, log, endSession });
    const access = { dispatch, dropped, nowMs, requestTimeoutMs: limits.requestTimeoutMs, onInitialized: () => this.tools.onInitialized() };
    const routing = (this.#routing = createRouting(access));
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
    const decision = this.#routing.onClientRequest(caller, request);
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
    const text = isCancellation ? undefined : this.#routing.onClientNotification(notification);
    if (text === undefined || text instanceof SidecarError) return text;
    return this.#dispatch.carryNotification(session, text, notification.method);
  }

  answer(session: Session, response: ResponseMessage): SidecarError | undefined {
    return this.#routing.onClientResponse(session, response);
  }

  addSession(session: Session, initialize: RequestMessage): void {
    this.#capabilities.add(session);
    this.#routing.onListener(session, initialize);
  }

  announceLists(session: Session): void {
    this.#capabilities.announceTo(session);
  }

  /** Adds a caller without a session that gets the messages for all clients, until `endCaller`. */
  addListener(caller: Caller): void {
    this.#routing.onListener(caller);
  }

  endCaller(caller: Caller): void {
    this.#routing.onCallerEnd(caller);
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
    const changes = this.#capabilities.change(this.#routing.initialize.capabilities(handshake), handshake.generation);
    for (const change of changes) this.#routing.onServerNotification(change);
    // Calls that are sent now come after the handshake, which is the server's last message.
    this.#hangWatch.onReady(this.#nowMs());
    this.#dispatch.queue.open(() => this.#routing.onReady(handshake));
  }

  onRefused(response: ResponseMessage): void {
    if (!this.#routing.initialize.isRefusalFinal) return;
    this.#initializing.onRefused(response);
    // After a restart, this is the client's own request again. Later generations would refuse it too.
    if (refusesRevision(response)) this.#capabilities.endAll();
  }

  onMessage(message: Message): void {
    this.#hangWatch.heard();
    if (message.kind === "response") this.#responses.onResponse(message);
    else if (message.kind === "notification") this.#onNotification(message);
    else this.#routing.onServerRequest(message);
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
    this.#routing.onLost();
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
      return this.#routing.onServerNotification(message);
    }
    if (!deliverProgress(this.#calls, message, this.#nowMs())) this.#dropped.notification(message.method);
  }

  #onDue(nowMs: number): number {
    // The time in which a person answers the server does not count.
    if (this.#routing.isWaitingForClient) this.#calls.extend(nowMs);
    return Math.min(this.#routing.expire(nowMs), this.#hangWatch.tick(nowMs));
  }
}
