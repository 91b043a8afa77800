import { AsyncLocalStorage } from "node:async_hooks";
import { subscribe } from "node:diagnostics_channel";
import { valueCounter } from "./json.ts";

/** A longer response ends its call. */
const MAX_RESPONSE_BYTES = 4 * 1024 * 1024;
/** The SDK describes each part that is wrong, in some 4 KB. */
const MAX_RESPONSE_VALUES = 20_000;
/** Replies to requests of a server that are sent at once. Further ones are dropped. */
const MAX_REPLIES = 8;

/** The call of a tool that a request belongs to. */
interface Call {
  /** Aborts its requests: a response that is too long does, and the end of the call. */
  readonly ended: AbortController;
  /** True if a part of a request was sent, so that the call may have taken effect. */
  isSent: boolean;
}

export const callInProgress = new AsyncLocalStorage<Call>();

/** `fetch` does not say if it could connect. */
const requests = new WeakMap<object, Call>();
subscribe("undici:request:create", (message) => {
  const call = callInProgress.getStore();
  if (call !== undefined) requests.set((message as { readonly request: object }).request, call);
});
subscribe("undici:client:sendHeaders", (message) => {
  const call = requests.get((message as { readonly request: object }).request);
  if (call !== undefined) call.isSent = true;
});

export class ResponseTooLarge extends Error {}

/** Returns the `fetch` of a connection to an MCP server, which may be hostile. @param closed aborts with the connection. */
export function boundedFetch(closed: AbortSignal): typeof fetch {
  let replies = 0;
  return async (url, init = {}) => {
    // Nothing listens to notifications, so there is no stream for them.
    if (init.method === "GET") return new Response(null, { status: 405 });
    const call = callInProgress.getStore();
    const signals = [closed, init.signal, call?.ended.signal].filter((each) => each !== undefined && each !== null);
    const isReply = typeof init.body === "string" && !init.body.includes('"method"');
    if (isReply && replies >= MAX_REPLIES) return new Response(null, { status: 202 });
    if (isReply) replies++;
    try {
      const response = await fetch(url, { ...init, redirect: "manual", signal: AbortSignal.any(signals) });
      if (isReply) await response.body?.cancel();
      return isReply ? new Response(null, { status: response.status }) : bounded(response, call);
    } finally {
      if (isReply) replies--;
    }
  };
}

function bounded(response: Response, call: Call | undefined): Response {
  let bytes = 0;
  const countValues = valueCounter();
  const limiter = new TransformStream<Uint8Array, Uint8Array>({
    transform(chunk, controller) {
      bytes += chunk.length;
      const isLong = bytes > MAX_RESPONSE_BYTES;
      if (!isLong && countValues(chunk) <= MAX_RESPONSE_VALUES) return controller.enqueue(chunk);
      const error = new ResponseTooLarge(
        `The server sends more than ${isLong ? `${MAX_RESPONSE_BYTES} bytes` : `${MAX_RESPONSE_VALUES} values`}.`,
      );
      controller.error(error);
      call?.ended.abort(error);
    },
  });
  const { status, statusText, headers } = response;
  return new Response(response.body?.pipeThrough(limiter) ?? null, { status, statusText, headers });
}
