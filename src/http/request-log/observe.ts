import { ObservedRequest, type RequestObserver } from "../../observability/request-observer.ts";
import { type RequestMessage, Slot } from "../../protocol/message.ts";
import type { Session } from "../../sessions/session.ts";
import type { Post } from "../route.ts";

/** Begins the observation of a request. @param session undefined without one, or before it is opened. */
export type Observe = (post: Post, request: RequestMessage, session?: Session) => ObservedRequest;

export function createObserve(observer: RequestObserver): Observe {
  return ({ request: { socket }, principal, acceptedAtMs }, { method, text, outline }, session) => {
    const observed = new ObservedRequest(observer, {
      method,
      tool: method === "tools/call" ? outline.stringAt(Slot.toolName) : undefined,
      principal: principal?.name ?? socket.remoteAddress ?? "unknown",
      acceptedAtMs,
      requestBytes: Buffer.byteLength(text),
    });
    if (session !== undefined) observed.setSession(session);
    return observed;
  };
}
