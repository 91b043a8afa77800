import type { Context } from "../context.ts";
import { idTextOf, type NotificationMessage, type RequestMessage, type ResponseMessage, Slot } from "../mcp/message.ts";
import {
  cancellationToClient,
  cancelledIdText,
  progressTokenText,
  progressToServer,
  requestToClient,
  responseToServer,
} from "../mcp/rewrite.ts";
import type { Timer } from "../timers.ts";
import { MAX_RENEWED_TIMES } from "./call.ts";
import { PendingRequests } from "./pending-requests.ts";
import { isCreateTaskResult, TaskTokens } from "./tasks.ts";

export interface ForwardedRequest {
  readonly id: number;
  /** The JSON text of the server's request id. */
  readonly idText: string;
  /** The JSON text of the server's progress token. */
  readonly progressTokenText: string | undefined;
  readonly method: string;
  /** The end of the time in which the client may answer. */
  readonly timer: Timer;
}

/**
 * The server's requests that its client has not answered. The client gets ids that are minted here, so that a late answer never matches a
 * request of the next generation.
 */
export class ForwardedRequests extends PendingRequests<ForwardedRequest> {
  /** The server's progress tokens, by the id of the request. */
  readonly #taskTokens = new TaskTokens<string>();

  /** @param onOverdue called after its removal if the client has not answered in time. @returns the request with the id for the client. */
  add(request: RequestMessage, { config, nowMs, timers }: Context, onOverdue: (request: ForwardedRequest) => void): string {
    const id = this.mintId();
    const { method } = request;
    const timer = timers.add(() => {
      this.delete(id);
      onOverdue(forwarded);
    });
    const forwarded = { id, idText: idTextOf(request), progressTokenText: progressTokenText(request), method, timer };
    this.set(id, forwarded);
    timer.set(nowMs() + config.requestTimeoutMs * MAX_RENEWED_TIMES);
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

  /** Cancels all requests, because the server is lost. @returns the notifications for the client, which may be asking a person. */
  cancelAll(reason: string): string[] {
    const requests = this.values().toArray();
    this.clear();
    return requests.map(({ id }) => cancellation(id, reason));
  }

  override delete(id: unknown): boolean {
    this.get(id)?.timer.clear();
    return super.delete(id);
  }

  override clear(): void {
    for (const { timer } of this.values()) timer.clear();
    super.clear();
    this.#taskTokens.clear();
  }
}

/** Returns a `notifications/cancelled` of the sidecar. @param requestId the client's id of the request. */
export function cancellation(requestId: number, reason: string): string {
  return JSON.stringify({ jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId, reason } });
}
