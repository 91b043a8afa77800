import {
  idTextOf,
  isCreateTaskResult,
  type NotificationMessage,
  type RequestMessage,
  type ResponseMessage,
  Slot,
} from "../jsonrpc/message.ts";
import { PendingRequests } from "../jsonrpc/pending-requests.ts";
import {
  cancellationToClient,
  cancelledIdText,
  progressTokenText,
  progressToServer,
  requestToClient,
  responseToServer,
} from "../jsonrpc/rewrite.ts";
import { TaskTokens } from "./task-tokens.ts";

export interface ForwardedRequest {
  readonly id: number;
  /** The JSON text of the id and the progress token that the server chose. */
  readonly idText: string;
  readonly progressTokenText: string | undefined;
  readonly method: string;
  readonly deadlineMs: number;
}

/**
 * The requests of a server that its client has to answer, under ids minted here: a late answer can then never meet a request of the
 * next generation that has the same id.
 */
export class ForwardedRequests {
  readonly #pending = new PendingRequests<ForwardedRequest>();
  /** By the id of the request, the progress token that the server chose. */
  readonly #taskTokens = new TaskTokens<string>();

  get size(): number {
    return this.#pending.size;
  }

  /** @returns the request as the client shall read it. */
  add(request: RequestMessage, deadlineMs: number): string {
    const id = this.#pending.mintId();
    const { method } = request;
    this.#pending.add(id, { id, idText: idTextOf(request), progressTokenText: progressTokenText(request), method, deadlineMs });
    return requestToClient(request, id);
  }

  /** @returns the client's answer as the server shall read it, or undefined where nothing like it is awaited. */
  answer(response: ResponseMessage): string | undefined {
    const request = this.#pending.take(response.id);
    if (request === undefined) return undefined;
    const { id, idText, progressTokenText: tokenText } = request;
    if (tokenText !== undefined && isCreateTaskResult(response)) this.#taskTokens.keep(id, tokenText);
    return responseToServer(response, idText);
  }

  /** The server cancels what it asked for. @returns the notification as the client shall read it. */
  cancel(notification: NotificationMessage): string | undefined {
    const idText = cancelledIdText(notification);
    const request = this.#pending.values().find((each) => each.idText === idText);
    if (request === undefined) return undefined;
    this.#pending.take(request.id);
    return cancellationToClient(notification, request.id);
  }

  /** The client shows progress on what it was asked for. @returns the notification as the server shall read it. */
  progress(notification: NotificationMessage): string | undefined {
    const token = notification.outline.numberAt(Slot.progressToken);
    const tokenText = this.#pending.get(token)?.progressTokenText ?? this.#taskTokens.get(token);
    return tokenText === undefined ? undefined : progressToServer(notification, tokenText);
  }

  /** Gives up what is overdue. @returns the next deadline, or Infinity. */
  expire(nowMs: number, giveUp: (request: ForwardedRequest) => void): number {
    let nextMs = Number.POSITIVE_INFINITY;
    for (const request of this.#pending.values()) {
      if (request.deadlineMs > nowMs) nextMs = Math.min(nextMs, request.deadlineMs);
      else {
        this.#pending.take(request.id);
        giveUp(request);
      }
    }
    return nextMs;
  }

  /** The server that asked is gone. @returns what to tell the client, which would go on asking somebody. */
  cancelAll(reason: string): string[] {
    const requests = this.#pending.values().toArray();
    this.clear();
    return requests.map(({ id }) => cancellation(id, reason));
  }

  clear(): void {
    for (const { id } of this.#pending.values()) this.#pending.take(id);
    this.#taskTokens.clear();
  }
}

/** A `notifications/cancelled` of the sidecar itself, by the id that the client knows. */
export function cancellation(requestId: number, reason: string): string {
  return JSON.stringify({ jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId, reason } });
}
