import type { Context } from "../context.ts";
import { shorten } from "../json/text.ts";
import { SidecarError } from "../mcp/errors.ts";
import { readMessage, type RequestMessage, type ResponseMessage, Slot } from "../mcp/message.ts";
import type { Reservation } from "../memory.ts";
import { Reply, type ReplyTarget } from "../session/reply.ts";

/** In UTF-16 units. */
const MAX_ERROR_LENGTH = 500;

/** Called once with the JSON text of the result, or with the reason why there is none, and the sidecar's error, if it is one. */
export type OnInternalResult = (resultText: string | undefined, reason?: string, error?: SidecarError) => void;

/** Returns an internal request. Its id is replaced when it is sent. @param meta undefined for none. */
export function internalRequest(method: string, params: object, meta?: object): RequestMessage {
  const allParams = meta === undefined ? params : { ...params, _meta: meta };
  const request = readMessage(JSON.stringify({ jsonrpc: "2.0", id: 0, method, params: allParams }));
  if (request.kind !== "request") throw new Error(`not a request: ${method}`);
  return request;
}

export function internalReply(context: Context, target: ReplyTarget): Reply {
  return new Reply(context, "0", context.nowMs(), target);
}

/** Returns the target of an internal request. @param onResult undefined if the result is not needed. */
export function resultTo(onResult?: OnInternalResult): ReplyTarget {
  return {
    finish: (outcome) => {
      if (outcome instanceof SidecarError) onResult?.(undefined, outcome.message, outcome);
      if (typeof outcome !== "string" || onResult === undefined) return undefined;
      const { outline } = readMessage(outcome) as ResponseMessage;
      const result = outline.textAt(Slot.result);
      const error = shorten(outline.textAt(Slot.error) ?? "", MAX_ERROR_LENGTH);
      if (result === undefined) onResult(undefined, `the server answered with an error: ${error}`);
      else onResult(result);
      return undefined;
    },
  };
}

/** A request that the sidecar itself sends to the server. */
export interface InternalRequest {
  readonly method: string;
  readonly params: object;
  /** Called right before the request is sent. If it returns false, the request is not sent. */
  readonly isCurrent?: () => boolean;
  readonly onEnded?: (hasResult: boolean) => void;
  /** The memory of the client that has caused the request, until its end. */
  readonly memory?: Reservation | undefined;
}

/** Returns a `notifications/cancelled` of the sidecar. @param requestId the receiver's id of the request. */
export function cancellation(requestId: number, reason: string): string {
  return JSON.stringify({ jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId, reason } });
}

/** Returns the error response to a request of the server. */
export function errorAnswer(idText: string, code: number, message: string): string {
  return `{"jsonrpc":"2.0","id":${idText},"error":${JSON.stringify({ code, message })}}`;
}
