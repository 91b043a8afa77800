import type { Context } from "../context.ts";
import { JsonRpcErrorCode, SidecarError } from "../mcp/errors.ts";
import {
  type Message,
  type NotificationMessage,
  type Outgoing,
  type OverlongLine,
  refusesRevision,
  type RequestMessage,
  readMessage,
  type ResponseMessage,
  Slot,
} from "../mcp/message.ts";
import { editsOf, messageToServer, notificationToClient } from "../mcp/rewrite.ts";
import { progressTokenOf, requestIdOf } from "../mcp/server-line.ts";
import type { MemoryHolder } from "../memory.ts";
import type { Upstream, UpstreamExit, UpstreamHandshake, UpstreamInput, UpstreamListener } from "../process/port.ts";
import type { Reply } from "../session/reply.ts";
import type { Caller, Session, SessionLane } from "../session/session.ts";
import { Call, errorAnswer, isOfClient, Semaphore } from "./call.ts";
import { Calls, type HeldRequest } from "./calls.ts";
import {
  internalError,
  invalidResponse,
  outOfMemory,
  overloaded,
  responseTooLarge,
  sessionEnded,
  sessionOverloaded,
  shuttingDown,
  upstreamExited,
  upstreamChanged,
} from "./failures.ts";
import { HangWatch } from "./hang-watch.ts";
import { answerTo, type InitializeRequest, SessionCapabilities } from "./initialize.ts";
import type { Routing } from "./routing.ts";
import { isCreateTaskResult } from "./tasks.ts";
import { type LanePolicy, ServerTools } from "./tools.ts";

/** One supervised server, its requests in flight, and its sessions. */
export class Lane implements SessionLane, UpstreamListener {
  readonly context: Context;
  readonly calls: Calls;
  readonly tools: ServerTools;
  readonly routing: Routing;
  onQuestion: ((request: RequestMessage) => void) | undefined;
  readonly #policy: LanePolicy | undefined;
  readonly #held = new Semaphore("the server", 0);
  /** Held requests share one owner, so their queue is usually the longest and loses a request first. */
  #heldOwner: HeldRequest["owner"] | undefined;
  readonly #capabilities: SessionCapabilities;
  /** Undefined until this generation leaves a request unanswered, unless idle servers are pinged. */
  #hangWatch: HangWatch | undefined;
  /** True if this generation seems to answer notifications with errors that have no id. */
  #answersNotifications = false;
  #isClosed = false;

  /**
   * @param endSession calls `endCaller` here.
   * @param policy undefined if there are no rules.
   */
  constructor(
    context: Context,
    upstream: Upstream,
    endSession: (session: Session) => void,
    createRouting: (calls: Calls, tools: ServerTools) => Routing,
    policy: LanePolicy | undefined,
  ) {
    this.context = context;
    this.#policy = policy;
    this.calls = new Calls(context, upstream, () => this.routing.isWaitingForClient);
    this.tools = new ServerTools(this.calls, policy?.needsTools === true ? policy : undefined);
    this.#capabilities = new SessionCapabilities(this.calls, endSession);
    this.routing = createRouting(this.calls, this.tools);
    this.calls.onTimeout = (call) => this.#watch()?.onTimeout(call);
    this.calls.onAbandoned = (call) => this.#watch()?.onAbandoned(call);
  }

  get isReady(): boolean {
    return this.calls.queue.isReady;
  }

  /** False while it waits for an answer of a client. */
  get isFree(): boolean {
    return !this.calls.queue.blocks.has("question");
  }

  get isBusy(): boolean {
    const { requestsInFlight, waiting } = this.calls.load;
    return requestsInFlight > 0 || waiting > 0 || !this.isFree;
  }

  /** Until the server is ready and waits for no client. Fails after HOLD_TIMEOUT_MS, or if the queue is full. */
  whenReady(held: HeldRequest, onReady: () => void, onFailed: (error: SidecarError) => void): void {
    const { calls } = this;
    if (this.#isDraining) onFailed(shuttingDown());
    else if (this.isReady && this.isFree) onReady();
    else calls.holdRequest(held, onReady, onFailed);
  }

  /** Until `releaseWaiting`: another session has the server alone, or it ends. Fails as `whenReady` does. */
  hold(held: HeldRequest, onReady: () => void, onFailed: (error: SidecarError) => void): void {
    let isHeld = false;
    const onLate = (error: SidecarError): void => {
      const isBusy = isHeld && error.code === "OVERLOADED";
      onFailed(isBusy ? overloaded("another session of this client still has it alone, or it ends") : error);
    };
    const owner = (this.#heldOwner ??= held.owner);
    this.calls.holdRequest({ ...held, owner }, onReady, onLate, this.#held);
    isHeld = true;
  }

  /**
   * Answers `initialize` from the server's handshake. The client that starts a private server waits as long as for any response. Others
   * wait as any held request.
   */
  initialize({ reply, request, memory, open, onRefused, onFailed }: InitializeRequest): void {
    const { calls } = this;
    const { config, counters, defects } = this.context;
    const call = new Call("initialize", { memory }, request.method, request.text, undefined, reply);
    const answer = (): void => {
      const { lastHandshake } = calls;
      if (lastHandshake === undefined || !this.isReady) return calls.end(call, calls.notReady());
      const { protocolVersion, resultText } = answerTo(
        lastHandshake,
        this.routing.isOfOneClient,
        request.outline.stringAt(Slot.requestedVersion),
      );
      calls.end(call, open(protocolVersion) ?? { resultText });
    };
    call.onReady = () => defects.guard("session start", answer, () => calls.end(call, internalError(false)));
    call.onRefused = onRefused;
    call.onEnded = (hasResult) => {
      if (!hasResult) onFailed();
    };
    const { isReady } = calls.queue;
    const expiresAtMs = reply.acceptedAtMs + (this.routing.isOfOneClient ? config.requestTimeoutMs : config.holdTimeoutMs);
    const hold = (): SidecarError | undefined => calls.roomError(request.text) ?? calls.hold(call, expiresAtMs);
    const error = this.#isDraining ? shuttingDown() : isReady ? undefined : hold();
    if (error !== undefined) {
      reply.refuse(error);
      return onFailed();
    }
    if (!isReady && !reply.isAccepted) counters.requests.held++;
    reply.accept();
    if (isReady) return call.onReady();
    reply.onDisconnect = () => calls.end(call, "unread");
  }

  request(caller: Caller, reply: Reply, request: RequestMessage): void {
    const { calls } = this;
    const { config, defects } = this.context;
    const { maxSessionRequests } = config;
    try {
      if (this.#isDraining) return reply.refuse(shuttingDown());
      if (caller.callsInFlight >= maxSessionRequests) return reply.refuse(sessionOverloaded(maxSessionRequests));
      const noRoom = calls.roomError(request.text);
      if (noRoom !== undefined) return reply.refuse(noRoom);
      // Last: a request that the lane rejects must not count towards a rate.
      const limits = this.#policy?.admit(caller, request);
      if (limits instanceof SidecarError) return reply.refuse(limits);
      if (calls.queue.blocks.has("tools")) this.tools.onWaiting();
      const transform = this.#policy?.transformOf(request.method, () => this.tools.onChanged());
      if (transform !== undefined) reply.transforms.push(transform);
      const decision = this.routing.onClientRequest(caller, request, reply);
      if (decision?.kind === "answer") {
        const { member, text } = decision;
        reply.accept();
        return reply.answer(member, text);
      }
      const { onEnded, request: sent = request, limits: own } = decision ?? {};
      calls.carry(caller, reply, sent, onEnded, limits ?? own);
    } catch (error) {
      defects.recover("client request", error, () => reply.fail(internalError(true)));
    }
  }

  notify(session: Session, notification: NotificationMessage): SidecarError | undefined {
    const refusal = this.#policy?.admit(session, notification);
    if (refusal instanceof SidecarError) return refusal;
    const isCancellation = notification.method === "notifications/cancelled";
    if (isCancellation) this.#cancelByClient(session, notification);
    const text = isCancellation ? undefined : this.routing.onClientNotification(notification);
    if (text === undefined || text instanceof SidecarError) return text;
    return this.calls.carryNotification(session, text, notification.method);
  }

  answer(session: Session, response: ResponseMessage): SidecarError | undefined {
    return this.routing.onClientResponse(session, response);
  }

  addSession(session: Session, initialize?: RequestMessage): void {
    this.#capabilities.add(session);
    this.routing.onListener(session, initialize);
  }

  announceLists(session: Session): void {
    this.#capabilities.announceTo(session);
  }

  endCaller(caller: Caller): void {
    this.routing.onCallerEnd(caller);
    const { calls } = this;
    const own = calls.values().filter((call) => call.kind === "client" && call.caller === caller);
    calls.giveUpAll(own, "session ended", (call) => sessionEnded(call.method, call.isSent, calls.effectOf(call)));
    this.#capabilities.delete(caller);
    calls.tasks.endCaller(caller);
  }

  /** The newest first. Each step ends one. */
  *freeUnsent(holder: MemoryHolder): Generator<void> {
    const { calls } = this;
    const error = outOfMemory("The memory of this client is needed for others.");
    const isUnsent = ({ kind, account, isSent }: Call): boolean => kind !== "notification" && account?.holder === holder && !isSent;
    for (const call of [...new Set([...calls.values(), ...calls.queue.entries])].filter(isUnsent).toReversed()) {
      if (call.kind === "client") calls.giveUp(call, "room in the memory budget", error);
      else calls.end(call, error);
      yield;
    }
  }

  close(reason: "shutdown" | "server lost" = "shutdown"): void {
    const { calls } = this;
    this.#isClosed = true;
    this.tools.onLost();
    this.#hangWatch?.end();
    calls.onTimeout = calls.onAbandoned = undefined;
    calls.giveUpAll(calls.values(), reason, (call) =>
      reason === "shutdown" ? shuttingDown(call.isSent, calls.effectOf(call)) : calls.notReady(call),
    );
    if (this.context.draining.aborted) for (const call of this.#initializing) calls.end(call, shuttingDown());
    calls.close();
  }

  onStarted(input: UpstreamInput): void {
    this.calls.input = input;
  }

  onReady(handshake: UpstreamHandshake): void {
    const { calls } = this;
    const former = calls.lastHandshake;
    calls.lastHandshake = handshake;
    // Such as `notifications/initialized`, which the server may answer with an error.
    calls.sent.noteNotification();
    this.tools.onReady();
    // Lists are announced before any held `initialize` is answered: those clients have seen no earlier generation.
    if (handshake.resultText !== former?.resultText) this.#capabilities.change(handshake, this.routing.isOfOneClient);
    for (const text of former === undefined ? [] : this.#capabilities.listChanges) {
      const change = readMessage(text);
      if (change.kind === "notification") this.routing.onServerNotification(change);
    }
    if (handshake.era !== this.routing.era) {
      const queued = calls.values().filter(({ kind, isWritten }) => kind === "client" && !isWritten);
      calls.giveUpAll(queued, "server era changed", (call) => upstreamChanged(call.method, call.isSent));
    }
    calls.queue.isReady = true;
    if (this.context.config.pingIntervalMs !== undefined) this.#watch();
    this.routing.onReady(handshake);
    calls.queue.release();
  }

  onRefused(response: ResponseMessage): void {
    if (!this.routing.isOfOneClient) return;
    // The server would reject the next one too.
    for (const call of this.#initializing) {
      call.onRefused?.(response);
      this.calls.end(call, "unread");
    }
    // After a restart, this is the client's own request again. Later generations would refuse it too.
    if (refusesRevision(response)) this.#capabilities.endAll();
  }

  onMessage(message: Message): void {
    const { calls } = this;
    calls.lastMessageNumber = ++calls.lastNumber;
    if (message.kind === "response") this.#onResponse(message);
    else if (message.kind === "notification") this.#onNotification(message);
    else {
      if (message.method !== "ping") this.onQuestion?.(message);
      this.routing.onServerRequest(message);
    }
  }

  onResponseAfterText(response: ResponseMessage): boolean {
    const call = this.calls.getWritten(response.id);
    if (call === undefined || !this.calls.sent.isOnlySender(call)) return false;
    this.onMessage(response);
    return true;
  }

  onInvalidResponse(id: number, reason: string): void {
    const { calls } = this;
    const call = calls.getWritten(id);
    if (call === undefined) return;
    calls.sent.noteAnswered(id);
    calls.end(call, invalidResponse(call.method, reason, calls.effectOf(call)));
    calls.lastMessageNumber = ++calls.lastNumber;
  }

  onOverlongLine(line: OverlongLine): void {
    const { calls } = this;
    calls.lastMessageNumber = ++calls.lastNumber;
    const id = line.hasMethod || line.idText === undefined ? undefined : requestIdOf(line.idText);
    const call = calls.getWritten(id);
    calls.dropped.overlongLine(line, call);
    const limitBytes = line.isForMemory ? undefined : this.context.config.maxLineBytes;
    if (call !== undefined) {
      calls.sent.noteAnswered(call.wireId);
      calls.end(call, responseTooLarge(call.method, line.bytes, limitBytes, calls.effectOf(call)));
    } else if (!line.hasMethod) calls.dropped.answer(id, calls.sent.takeAbandoned(id));
    else if (line.idText !== undefined) {
      // Without a response the server would wait forever.
      const reason = `The request is too long for the sidecar (${line.bytes} bytes) and was discarded`;
      calls.sendInternal(errorAnswer(line.idText, JsonRpcErrorCode.InvalidRequest, reason));
    }
  }

  onLost(exit: UpstreamExit, unwritten: readonly Outgoing[]): void {
    const { calls } = this;
    this.#answersNotifications = false;
    this.#hangWatch?.end();
    this.#hangWatch = undefined;
    this.tools.onLost();
    this.routing.onLost();
    const count = calls.onLost(unwritten, (call) => upstreamExited(call.method, exit, calls.effectOf(call)));
    if (count > 0) this.context.log.warn({ generation: exit.generation, count, reason: exit.reason }, "requests in flight failed");
  }

  onDefect(): void {
    const { calls } = this;
    calls.giveUpAll(calls.values(), "defect", (call) => internalError(call.isSent));
  }

  #watch(): HangWatch | undefined {
    return this.calls.queue.isReady ? (this.#hangWatch ??= new HangWatch(this.calls)) : undefined;
  }

  get #isDraining(): boolean {
    return this.#isClosed || this.context.draining.aborted;
  }

  get #initializing(): Call[] {
    return [...this.calls.queue.entries].filter(({ kind }) => kind === "initialize");
  }

  #onResponse(response: ResponseMessage): void {
    const { calls, routing } = this;
    const { outline } = response;
    const id = response.id ?? (response.isError ? this.#onlyId() : undefined);
    const call = calls.getWritten(id);
    if (call === undefined) return this.calls.dropped.answer(id, calls.sent.takeAbandoned(id));
    try {
      // Only servers without sessions have other types of results.
      if (outline.has(Slot.resultType) && isOfClient(call) && routing.onUnfinished(call, response)) return;
    } catch (error) {
      return this.context.defects.recover("server response", error, () => calls.giveUp(call, "defect", internalError(true)));
    }
    if ((outline.has(Slot.task) || outline.has(Slot.resultType)) && isCreateTaskResult(response)) calls.tasks.add(call, response);
    calls.end(call, response);
  }

  /** An error without an id answers the only call of the only principal, unless it may be about something else. */
  #onlyId(): number | undefined {
    const { calls } = this;
    // A call of the sidecar that stays open is a subscription.
    const isOpen = ({ kind, timeoutMs }: Call): boolean => kind === "sidecar" && timeoutMs === Infinity;
    const [only, another] = calls.values().filter((call) => call.isWritten && !isOpen(call));
    const isClear = only?.kind === "client" && another === undefined && calls.sent.isOnlySender(only) && !calls.sent.hasUnreadNotification;
    if (isClear && !this.#answersNotifications) return only.wireId;
    this.#answersNotifications = true;
    return undefined;
  }

  #onNotification(message: NotificationMessage): void {
    const { method } = message;
    if (method === "notifications/tools/list_changed") this.tools.onChanged();
    if (method !== "notifications/progress") this.routing.onServerNotification(message);
    else if (!this.#deliverProgress(message) && !this.calls.tasks.deliverProgress(message)) this.calls.dropped.notification(method);
  }

  /** Renews the time of the call too (MCP 2025-11-25, basic/utilities/progress). @returns false if no call gets it. */
  #deliverProgress(message: NotificationMessage): boolean {
    const call = this.calls.getWritten(progressTokenOf(message));
    if (call?.progressTokenText === undefined) return false;
    call.extend(this.context.nowMs());
    const isShown = call.reply?.emit(notificationToClient(message, Slot.progressToken, call.progressTokenText)) === true;
    if (isShown) call.mustNotRestart = true;
    return isShown;
  }

  /**
   * Requests of one caller may share an id. A cancellation is then ambiguous, and ignored (MCP 2025-11-25, basic/utilities/cancellation).
   */
  #cancelByClient(caller: Caller, notification: NotificationMessage): void {
    const { calls } = this;
    const idText = notification.outline.textAt(Slot.requestId);
    const [call, another] = calls
      .values()
      .filter((each) => each.kind === "client" && each.caller === caller && each.reply?.idText === idText);
    if (call === undefined || another !== undefined) {
      this.context.log.debug({ method: "notifications/cancelled" }, "cancellation ignored: unknown or ambiguous request id");
      return;
    }
    // The sidecar's own cancellation is shorter, and is sent if there is no room for the client's.
    const hasRoom = this.calls.roomError(notification.text) === undefined;
    const text = hasRoom ? messageToServer(notification, editsOf(notification, String(call.wireId), Slot.requestId)) : undefined;
    calls.giveUp(call, "cancelled by the client", "dismissed", text);
  }
}
