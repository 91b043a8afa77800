import { idTextOf, type NotificationMessage, type RequestMessage, type ResponseMessage, Slot } from "../mcp/message.ts";
import {
  cancellationToClient,
  cancelledIdText,
  progressTokenText,
  progressToServer,
  requestToClient,
  responseToServer,
} from "../mcp/rewrite.ts";
import { PendingRequests } from "./call-table.ts";
import { isCreateTaskResult, TaskTokens } from "./tasks.ts";

export interface ForwardedRequest {
  readonly id: number;
  /** The JSON text of the server's request id. */
  readonly idText: string;
  /** The JSON text of the server's progress token. */
  readonly progressTokenText: string | undefined;
  readonly method: string;
  readonly deadlineMs: number;
}

/**
 * The server's requests that its client has not answered. The client gets ids that are minted here, so that a late answer never matches a
 * request of the next generation.
 */
export class ForwardedRequests extends PendingRequests<ForwardedRequest> {
  /** The server's progress tokens, by the id of the request. */
  readonly #taskTokens = new TaskTokens<string>();

  /** @returns the request with the id for the client. */
  add(request: RequestMessage, deadlineMs: number): string {
    const id = this.mintId();
    const { method } = request;
    this.set(id, { id, idText: idTextOf(request), progressTokenText: progressTokenText(request), method, deadlineMs });
    return requestToClient(request, id);
  }

  /** @returns the client's response with the server's id; undefined if there is no such request. */
  responseText(response: ResponseMessage): string | undefined {
    const request = this.get(response.id);
    return request === undefined ? undefined : responseToServer(response, request.idText);
  }

  /** Removes the request of a response that was sent. */
  onResponse(response: ResponseMessage): void {
    const request = this.get(response.id);
    this.delete(response.id);
    if (request?.progressTokenText !== undefined && isCreateTaskResult(response))
      this.#taskTokens.keep(request.id, request.progressTokenText);
  }

  /** Handles the server's cancellation of a request. @returns the notification for the client; undefined for an unknown id. */
  cancel(notification: NotificationMessage): string | undefined {
    const idText = cancelledIdText(notification);
    const request = this.values().find((each) => each.idText === idText);
    if (request === undefined) return undefined;
    this.delete(request.id);
    return cancellationToClient(notification, request.id);
  }

  /** Handles the client's progress on a request. @returns the notification for the server; undefined for an unknown token. */
  progress(notification: NotificationMessage): string | undefined {
    const token = notification.outline.numberAt(Slot.progressToken);
    const tokenText = this.get(token)?.progressTokenText ?? this.#taskTokens.get(token);
    return tokenText === undefined ? undefined : progressToServer(notification, tokenText);
  }

  /** Removes overdue requests, and calls `giveUp` with each. @returns the next deadline, or Infinity. */
  expire(nowMs: number, giveUp: (request: ForwardedRequest) => void): number {
    let nextMs = Number.POSITIVE_INFINITY;
    for (const request of this.values()) {
      if (request.deadlineMs > nowMs) nextMs = Math.min(nextMs, request.deadlineMs);
      else {
        this.delete(request.id);
        giveUp(request);
      }
    }
    return nextMs;
  }

  /** Cancels all requests, because the server is lost. @returns the notifications for the client, which may be asking a person. */
  cancelAll(reason: string): string[] {
    const requests = this.values().toArray();
    this.clear();
    return requests.map(({ id }) => cancellation(id, reason));
  }

  override clear(): void {
    super.clear();
    this.#taskTokens.clear();
  }
}

/** Returns a `notifications/cancelled` of the sidecar. @param requestId the client's id of the request. */
export function cancellation(requestId: number, reason: string): string {
  return JSON.stringify({ jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId, reason } });
}
