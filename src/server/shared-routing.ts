import { findMembers, stringOf } from "../json/find.ts";
import { JsonRpcErrorCode } from "../mcp/errors.ts";
import { isAtLeast, LOG_LEVELS as LEVELS, type NotificationMessage, type RequestMessage, Slot } from "../mcp/message.ts";
import { messageToServer } from "../mcp/rewrite.ts";
import { type Reservation, textMemoryBytes } from "../memory.ts";
import type { UpstreamHandshake } from "../process/port.ts";
import type { Caller } from "../session/session.ts";
import { type ClientCall, sendIf } from "./call.ts";
import type { Calls } from "./calls.ts";
import { SHARED_INITIALIZE } from "./initialize.ts";
import type { InternalRequest } from "./internal-calls.ts";
import type { Lane } from "./lane.ts";
import { answerPing, EMPTY_RESULT, LIST_CHANGED, refuse, refuseRequest, type RequestDecision, type Routing } from "./routing.ts";
import { UNKNOWN_TASK } from "./tasks.ts";

/**
 * Returns the oldest call of the only caller with calls in flight, and if it is its only call. Undefined if several callers have some, or none.
 * Undefined too if this generation has got anything of another principal: the server may still work for that one.
 */
function findOnlyCaller({ ofClients, hasOnePrincipal }: Calls): { readonly call: ClientCall; readonly isOnly: boolean } | undefined {
  const [oldest] = ofClients;
  if (oldest === undefined || !hasOnePrincipal || ofClients.some(({ caller }) => caller !== oldest.caller)) return undefined;
  return { call: oldest, isOnly: ofClients.length === 1 };
}

/** Client notifications that are not sent to a shared server. The sidecar sends its own, or they have no meaning there. */
const NOT_CARRIED_NOTIFICATIONS: ReadonlySet<string> = new Set([
  "notifications/initialized",
  "notifications/progress",
  "notifications/roots/list_changed",
]);

/** Routing for a shared server. A message without a known recipient is dropped or rejected: the recipient is never guessed. */
export class SharedRouting implements Routing {
  readonly initialize = SHARED_INITIALIZE;
  readonly isWaitingForClient = false;
  protected readonly lane: Lane;
  readonly state: DesiredState;
  readonly #driver: LegacyDriver;

  constructor(lane: Lane, state = new DesiredState()) {
    this.lane = lane;
    this.state = state;
    this.#driver = new LegacyDriver(lane, state);
  }

  onClientRequest(caller: Caller, request: RequestMessage): RequestDecision | undefined {
    const { method, outline } = request;
    switch (method) {
      case "logging/setLevel":
        return this.#driver.setLevel(caller, outline.stringAt(Slot.level));
      case "resources/subscribe":
        return this.#driver.subscribe(caller, outline.stringAt(Slot.uri));
      case "resources/unsubscribe":
        return this.#driver.unsubscribe(caller, outline.stringAt(Slot.uri));
      case "tasks/list":
        // MCP 2025-11-25, basic/utilities/tasks: not allowed if the server cannot identify requestors. A client would see all tasks.
        return refuse(JsonRpcErrorCode.MethodNotFound, "tasks/list is not available: this MCP server is shared by several clients");
      default:
        return method.startsWith("tasks/") ? this.#checkTask(caller, request) : undefined;
    }
  }

  /** Refuses the task of another principal as one that does not exist, and an id that the server could read in another way. */
  #checkTask({ memory }: Caller, { text, outline }: RequestMessage): RequestDecision | undefined {
    const params = outline.isObject(Slot.params) ? findMembers(text, outline.start(Slot.params), ["taskId"]) : undefined;
    if ((params?.duplicate ?? params?.otherCase) !== undefined)
      return refuse(JsonRpcErrorCode.InvalidParams, '"taskId" is ambiguous in the params. The request was not sent.');
    const [span] = params?.spans ?? [];
    const taskId = stringOf(text, span);
    if (span !== undefined && taskId === undefined)
      return refuse(JsonRpcErrorCode.InvalidParams, '"taskId" must be a string. The request was not sent.');
    const isForeign = this.lane.calls.tasks.owners.isOfOther(taskId, memory.holder);
    return isForeign ? refuse(JsonRpcErrorCode.InvalidParams, UNKNOWN_TASK) : undefined;
  }

  onClientNotification(notification: NotificationMessage): string | undefined {
    return NOT_CARRIED_NOTIFICATIONS.has(notification.method) ? undefined : messageToServer(notification);
  }

  onClientResponse(): undefined {
    // No request of a shared server reaches a client, so no response is expected.
    return undefined;
  }

  onServerNotification({ method, outline, text }: NotificationMessage): void {
    if (LIST_CHANGED.test(method)) {
      for (const caller of this.state.listeners) caller.deliverOnce(text);
    } else if (method === "notifications/resources/updated") this.#onResourceUpdated(outline.stringAt(Slot.uri), text);
    else if (method === "notifications/message") this.#onLogMessage(outline.stringAt(Slot.level), text);
    else this.lane.dropped.notification(method);
  }

  onServerRequest(request: RequestMessage): void {
    const { calls, dropped } = this.lane;
    const isPing = request.method === "ping";
    if (!calls.sendInternal(isPing ? answerPing(request) : this.refusalOf(request))) dropped.request(request.method);
    const owner = isPing ? undefined : findOnlyCaller(calls);
    if (owner?.isOnly === true) owner.call.reply.asking?.onRefused(request);
  }

  protected refusalOf(request: RequestMessage): string {
    return refuseRequest(request);
  }

  onReady(_handshake: UpstreamHandshake): void {
    this.#driver.onReady();
    this.lane.tools.onInitialized();
  }

  /** Tells all listeners of a restarted server. @param initializeResult undefined if it has no sessions now. */
  onRestarted(initializeResult: string | undefined): void {
    for (const caller of this.state.listeners) caller.onRestarted?.(initializeResult);
  }

  onListener(caller: Caller): void {
    this.state.addListener(caller);
  }

  onCallerEnd(caller: Caller): void {
    this.#driver.onEnd(caller, this.state.end(caller));
  }

  #onResourceUpdated(uri: string | undefined, text: string): void {
    const subscribers = uri !== undefined ? this.state.subscribersOf(uri) : new Set<Caller>();
    if (subscribers.size === 0) this.lane.dropped.notification("notifications/resources/updated");
    for (const caller of subscribers) caller.deliverOnce(text);
  }

  /**
   * Delivers a log message, which does not name its request. It goes to the only caller with calls in flight, and on the stream of its
   * call if there is just one. It is dropped if several callers have calls in flight. It may also be about earlier work, so it is dropped
   * if the server has ever got something of another principal.
   */
  #onLogMessage(level: string | undefined, text: string): void {
    const owner = this.state.level === undefined ? undefined : findOnlyCaller(this.lane.calls);
    if (owner === undefined) return this.lane.dropped.notification("notifications/message");
    const { call, isOnly } = owner;
    const { caller, reply } = call;
    if (!isAtLeast(level, this.state.levelOf(caller) ?? "")) return;
    // Each request of a client without a session has a level of its own.
    const isWanted = reply.logLevel === undefined || isAtLeast(level, reply.logLevel);
    if (!(isOnly && isWanted && reply.emit(text))) caller.deliver(text);
  }
}
