import { shorten } from "../json/text.ts";
import { kindsOf } from "../mcp/capabilities.ts";
import { JsonRpcErrorCode } from "../mcp/errors.ts";
import { idTextOf, type NotificationMessage, readMessage, type RequestMessage, Slot } from "../mcp/message.ts";
import { messageToServer, progressTokenText } from "../mcp/rewrite.ts";
import type { UpstreamHandshake } from "../process/port.ts";
import type { Asking, ServerAsk } from "../session/reply.ts";
import type { Caller } from "../session/session.ts";
import { Timer } from "../timers.ts";
import type { ClientCall } from "./call.ts";
import type { Lane } from "./lane.ts";
import { errorAnswer } from "./routing.ts";
import { SharedRouting } from "./shared-routing.ts";

/** The maximum number of questions of one server that are not answered. */
const MAX_ASKS = 64;
/** The length of the questions whose call is not known, in UTF-16 units. They count for no client yet. */
const MAX_WAITING_LENGTH = 1024 * 1024;
/** The time in which all calls but one must end, so that the question of a server can be assigned to a call. */
const MAX_WAIT_MS = 5000;
/** The time in which a call must end after its question was refused, before the next question is. */
const NEXT_REFUSAL_MS = 1000;

const NO_CALL = "The question belongs to no call in flight";
const AMBIGUOUS = "The question cannot be assigned to a call: several are in flight, or one was cancelled";

interface Ask extends ServerAsk {
  readonly idText: string;
  /** The reply that passes it to its client; undefined while its call is not known. */
  asking?: Asking;
  call?: ClientCall;
}

/**
 * Routing for a server that may ask its only client. A question does not name its call. It belongs to the only call in flight. If there are
 * several, no more are sent until one is left, since the call that asks cannot end.
 */
export class AskingRouting extends SharedRouting {
  /** The number of questions that could not be assigned. */
  unattributed = 0;
  readonly #onChanged: () => void;
  readonly #asks = new Map<string, Ask>();
  /** True while a ping shows if the server has read a cancellation. */
  #isPinged = false;
  /** The time at which the newest question is refused that cannot be assigned. */
  readonly #refusal: Timer;
  #progress = 0;

  /** @param onChanged called when the server has become free for other calls, or no longer is. */
  constructor(lane: Lane, onChanged: () => void) {
    super(lane);
    this.#onChanged = onChanged;
    this.#refusal = new Timer(lane.context.timers, (nowMs) => this.#refuseNewest(nowMs));
    // The reply of a call that has ended answers its questions.
    lane.calls.onEnd = () => this.#onCallEnd();
  }

  /** True if a client's call may be sent now. */
  get isFree(): boolean {
    return !this.lane.calls.queue.blocks.has("question");
  }

  override onServerRequest(request: RequestMessage): void {
    if (kindsOf(request) === 0 || this.#isUndeclared(request)) return super.onServerRequest(request);
    const { outline, method } = request;
    const idText = idTextOf(request);
    if (this.#asks.has(idText)) return this.lane.dropped.request(method);
    if (outline.isRepeated(Slot.id) || outline.isRepeated(Slot.method)) {
      return this.#send(method, errorAnswer(idText, JsonRpcErrorCode.InvalidRequest, "The id or the method of the request occurs twice"));
    }
    const length = this.#asks.values().reduce((sum, ask) => sum + (ask.asking === undefined ? ask.request.text.length : 0), 0);
    if (this.#asks.size >= MAX_ASKS || length > MAX_WAITING_LENGTH) {
      return this.#send(method, errorAnswer(idText, JsonRpcErrorCode.ServerError, "Too many questions are not answered yet"));
    }
    const ask: Ask = {
      request,
      idText,
      answer: (member, text) => this.#answer(ask, member, text),
      showProgress: () => this.#showProgress(ask),
    };
    this.#asks.set(idText, ask);
    this.#assign();
  }

  protected override refusalOf(request: RequestMessage): string {
    if (kindsOf(request) === 0) return super.refusalOf(request);
    const reason = `${request.method} is not available: the client of this call has not declared it`;
    this.lane.dropped.question(request.method, reason);
    return errorAnswer(idTextOf(request), JsonRpcErrorCode.MethodNotFound, reason);
  }

  override onServerNotification(notification: NotificationMessage): void {
    const { method, outline } = notification;
    const ask = method === "notifications/cancelled" ? this.#asks.get(outline.textAt(Slot.requestId) ?? "") : undefined;
    if (ask === undefined) return super.onServerNotification(notification);
    this.#asks.delete(ask.idText);
    ask.asking?.withdraw(ask);
    this.#assign();
  }

  override onReady(handshake: UpstreamHandshake): void {
    super.onReady(handshake);
    this.#assign();
  }

  override onLost(): void {
    super.onLost();
    const asks = [...this.#asks.values()];
    this.#asks.clear();
    this.#refusal.clear();
    // The queue opens for the next generation.
    for (const ask of asks) ask.asking?.withdraw(ask);
  }

  #refuseNewest(nowMs: number): void {
    this.#refusal.set(nowMs + NEXT_REFUSAL_MS);
    const newest = [...this.#asks.values()].findLast(({ asking }) => asking === undefined);
    if (newest !== undefined) this.#refuse(newest, AMBIGUOUS);
    this.#assign();
  }

  /** A client that has not declared a question cannot be asked, so the call goes on without the answer. */
  #isUndeclared(request: RequestMessage): boolean {
    const calls = this.lane.calls.ofClients;
    return calls.length > 0 && !calls.some(({ reply }) => reply.asking?.canAnswer(request) === true);
  }

  /** A question may be about a call that was given up, until the server has read that. */
  #onCallEnd(): void {
    const { calls } = this.lane;
    if (calls.hasUnreadAbandoned) {
      for (const ask of this.#asks.values()) if (ask.asking === undefined) this.#refuse(ask, AMBIGUOUS);
      if (!this.#isPinged) {
        this.#isPinged = true;
        calls.ask("ping", {}, () => (this.#isPinged = false));
      }
    }
    this.#assign();
  }

  /** Assigns questions to the only call in flight, or waits until there is only one. */
  #assign(): void {
    const { calls, context } = this.lane;
    const waiting = [...this.#asks.values()].filter(({ asking }) => asking === undefined);
    const owner = waiting.length === 0 ? undefined : this.#findOwner();
    if (owner === "waits") this.#refusal.set(Math.min(this.#refusal.atMs, context.nowMs() + MAX_WAIT_MS));
    else {
      this.#refusal.clear();
      for (const ask of waiting) {
        // The answer to another question may have assigned it meanwhile.
        if (this.#asks.get(ask.idText) !== ask || ask.asking !== undefined) continue;
        if (owner === undefined) this.#refuse(ask, calls.ofClients.length === 0 ? NO_CALL : AMBIGUOUS);
        else this.#pass(ask, owner);
      }
    }
    const isFree = this.#asks.size === 0 && !calls.values().some(({ state }) => state === "parked");
    if (isFree === this.isFree) return;
    if (isFree) calls.queue.unblock("question");
    else calls.queue.blocks.add("question");
    this.#onChanged();
  }

  /** Returns the call that asks; "waits" if several calls could be it; undefined if it cannot be found, or if no client can be asked. */
  #findOwner(): ClientCall | "waits" | undefined {
    const { calls } = this.lane;
    const inFlight = calls.ofClients;
    const [first] = inFlight;
    if (first === undefined || calls.hasUnreadAbandoned) return undefined;
    if (!inFlight.some(({ reply }) => reply.asking !== undefined)) return undefined;
    return inFlight.length > 1 ? "waits" : first;
  }

  #pass(ask: Ask, call: ClientCall): void {
    const { asking } = call.reply;
    if (asking?.canAnswer(ask.request) !== true) {
      this.#asks.delete(ask.idText);
      return super.onServerRequest(ask.request);
    }
    ask.asking = asking;
    ask.call = call;
    call.mustNotRestart = true;
    const { calls } = this.lane;
    asking.ask(ask, {
      park: (waiting) => {
        call.reply = waiting;
        calls.park(call);
        this.#assign();
      },
      resume: (reply, tokenText) => {
        call.reply = reply;
        call.progressTokenText = tokenText;
        calls.resume(call);
        this.#assign();
      },
      cancel: (reason) => calls.giveUp(call, reason, "unread"),
      roomError: (text) => calls.inputRoomError(text),
    });
  }

  #refuse(ask: Ask, reason: string): void {
    this.unattributed++;
    this.lane.dropped.question(ask.request.method, reason);
    ask.answer("error", JSON.stringify({ code: JsonRpcErrorCode.ServerError, message: reason }));
  }

  #answer(ask: Ask, member: "result" | "error", text: string): void {
    if (this.#asks.get(ask.idText) !== ask) return;
    this.#asks.delete(ask.idText);
    const response = readMessage(`{"jsonrpc":"2.0","id":${ask.idText},"${member}":${text}}`);
    if (response.kind !== "invalid") this.#send(ask.request.method, messageToServer(response), ask.call?.caller);
    this.#assign();
  }

  #showProgress(ask: Ask): void {
    const token = progressTokenText(ask.request);
    if (token === undefined || this.#asks.get(ask.idText) !== ask) return;
    const params = `{"progressToken":${token},"progress":${++this.#progress}}`;
    this.#send(ask.request.method, `{"jsonrpc":"2.0","method":"notifications/progress","params":${params}}`);
  }

  #send(method: string, text: string, caller?: Caller): void {
    if (!this.lane.calls.sendInternal(text, caller?.memory)) this.lane.dropped.request(shorten(method));
  }
}
