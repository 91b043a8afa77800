import { AsyncLocalStorage } from "node:async_hooks";

/** A longer response ends its call. */
const MAX_RESPONSE_BYTES = 4 * 1024 * 1024;
/** Replies to requests of a server that are sent at once. Further ones are dropped. */
const MAX_REPLIES = 8;

/** The call that a request of the SDK belongs to. A response that is too long, and the end of the call, abort its requests. */
export const callInProgress = new AsyncLocalStorage<AbortController>();

export class ResponseTooLarge extends Error {
  constructor() {
    super(`The server sends more than ${MAX_RESPONSE_BYTES} bytes.`);
  }
}

/** Returns the `fetch` of a connection to an MCP server, which may be hostile. @param closed aborts with the connection. */
export function boundedFetch(closed: AbortSignal): typeof fetch {
  let replies = 0;
  return async (url, init = {}) => {
    // Nothing listens to notifications, so there is no stream for them.
    if (init.method === "GET") return new Response(null, { status: 405 });
    const call = callInProgress.getStore();
    const signals = [closed, init.signal, call?.signal].filter((each) => each !== undefined && each !== null);
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

function bounded(response: Response, call: AbortController | undefined): Response {
  let bytes = 0;
  const limiter = new TransformStream<Uint8Array, Uint8Array>({
    transform(chunk, controller) {
      bytes += chunk.length;
      if (bytes <= MAX_RESPONSE_BYTES) return controller.enqueue(chunk);
      const error = new ResponseTooLarge();
      controller.error(error);
      call?.abort(error);
    },
  });
  const { status, statusText, headers } = response;
  return new Response(response.body?.pipeThrough(limiter) ?? null, { status, statusText, headers });
}
