import { shorten } from "../json/text.ts";
import { JsonRpcErrorCode, type SidecarError } from "../mcp/errors.ts";
import { type NotificationMessage, type RequestMessage, type ResponseMessage, Slot } from "../mcp/message.ts";
import { editsOf, messageToServer, notificationToClient, requestToClient } from "../mcp/rewrite.ts";
import { RecentMap, type Reservation, textMemoryBytes } from "../memory.ts";
import { INITIALIZED } from "../process/handshake.ts";
import type { SessionStreams } from "../session/streams.ts";
import { answerElsewhere } from "./failures.ts";
import type { Calls } from "./calls.ts";
import type { ServerTools } from "./tools.ts";
import { Questions } from "./questions.ts";
import { cancellation } from "./call.ts";
import { isCreateTaskResult, MAX_TOKENS } from "./tasks.ts";

export const LIST_CHANGED = /^notifications\/(?:tools|prompts|resources)\/list_changed$/;

const MAX_FORWARDED_REQUESTS = 1024;

/** The only session that has used a private server. Every message is for it, or comes from it. */
export class PrivateSession {
  readonly #calls: Calls;
  readonly #tools: ServerTools;
  readonly #streams: SessionStreams;
  readonly #kept: Reservation;
  readonly #onInitialized: ((text: string) => void) | undefined;
  readonly #questions: Questions;
  readonly #taskTokens = new RecentMap<unknown, string>(MAX_TOKENS);
  isInitialized: boolean;

  /** @param onInitialized keeps the client's own `notifications/initialized`. Undefined if the sidecar sends one. */
  constructor(calls: Calls, tools: ServerTools, streams: SessionStreams, onInitialized?: (text: string) => void) {
    this.#calls = calls;
    this.#tools = tools;
    this.#streams = streams;
    this.#kept = streams.memory.hold("requests", 0);
    this.#onInitialized = onInitialized;
    // The client of a session that is taken up has sent its own notification to another replica.
    this.isInitialized = onInitialized === undefined || streams.isTakenUp;
    this.#questions = new Questions(calls, MAX_FORWARDED_REQUESTS, (question) => {
      const reason = `The client did not answer ${shorten(question.method)} in time`;
      this.#questions.fail(question, JsonRpcErrorCode.SessionOrTimeout, reason);
      this.#emit(cancellation(question.id, "timeout"));
      calls.extend(calls.context.nowMs());
    });
  }

  get isAsked(): boolean {
    return this.#questions.size > 0;
  }

  onRequest(method: string): void {
    // A server may reject requests before this notification.
    if (!this.isInitialized && method !== "ping") this.#initialize(INITIALIZED);
  }

  onNotification(notification: NotificationMessage): string | SidecarError | undefined {
    const { method } = notification;
    if (method === "notifications/progress") {
      const token = notification.outline.numberAt(Slot.progressToken);
      const tokenText = this.#questions.get(token)?.progressTokenText ?? this.#taskTokens.get(token);
      return tokenText === undefined ? undefined : messageToServer(notification, editsOf(notification, tokenText, Slot.progressToken));
    }
    if (method === "notifications/initialized" && this.#onInitialized === undefined) return undefined;
    const text = messageToServer(notification);
    return method === "notifications/initialized" ? this.#initialize(text) : text;
  }

  #initialize(text: string): SidecarError | undefined {
    const calls = this.#calls;
    // A server that is starting gets the notification in its handshake.
    const { isReady } = calls.queue;
    if (isReady && !calls.sendInternal(text, this.#streams.memory)) return calls.inputRoomError(text);
    this.#kept.resize(textMemoryBytes(text));
    this.#onInitialized?.(text);
    this.isInitialized = true;
    if (isReady) this.#tools.onInitialized();
    return undefined;
  }

  onAnswer(response: ResponseMessage): SidecarError | undefined {
    const calls = this.#calls;
    const question = this.#questions.get(response.id);
    if (question === undefined) return this.#questions.ids.has(response.id) ? undefined : answerElsewhere();
    const { id, idText, progressTokenText } = question;
    const text = messageToServer(response, editsOf(response, idText, Slot.id));
    if (!calls.sendInternal(text, this.#streams.memory)) return calls.inputRoomError(text);
    this.#questions.close(question);
    if (progressTokenText !== undefined && isCreateTaskResult(response)) this.#taskTokens.set(id, progressTokenText);
    calls.extend(calls.context.nowMs());
    return undefined;
  }

  onServerNotification(notification: NotificationMessage): void {
    const { method, text } = notification;
    // These are not related to a request, so they do not belong on a request's stream.
    if (LIST_CHANGED.test(method) || method === "notifications/resources/updated") this.#streams.emitOnce(text);
    else if (method === "notifications/cancelled") {
      const question = this.#questions.withdraw(notification);
      if (question === undefined) return this.#calls.dropped.notification(method);
      this.#emit(notificationToClient(notification, Slot.requestId, String(question.id)));
    } else this.#emit(text);
  }

  ask(request: RequestMessage): void {
    const question = this.#questions.open(request);
    if (question !== undefined) this.#emit(requestToClient(request, question.id));
  }

  onLost(): void {
    this.#taskTokens.clear();
    // The client may be asking a person.
    for (const { id } of this.#questions.closeAll()) this.#emit(cancellation(id, "the MCP server has stopped"));
  }

  end(): void {
    this.#questions.closeAll();
    this.#taskTokens.clear();
    this.release();
  }

  release(): void {
    this.#kept.release();
  }

  /**
   * Sends on one stream: that of the only request in flight. If there are several, that of a GET, or else of the oldest request with one
   * (MCP 2025-11-25, basic/transports).
   */
  #emit(text: string): void {
    const inFlight = this.#calls.ofClients.map(({ reply }) => reply);
    const listening = inFlight.filter(({ isListening }) => isListening);
    if (inFlight.length === 1 || !this.#streams.hasStandalone) {
      // A lost connection may be resumed later, but an open one reads the message now.
      const candidates = listening.length > 0 || this.#streams.hasStandalone ? listening : inFlight;
      if (candidates.some((reply) => reply.emit(text))) return;
    }
    this.#streams.emit(text);
  }
}
