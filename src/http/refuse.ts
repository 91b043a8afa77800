import type { IncomingMessage, ServerResponse } from "node:http";
import type { SidecarError } from "../errors.ts";
import { sendError } from "./json-response.ts";

/** How long the body of a refused request may take to arrive before its connection is closed. */
const LINGER_MS = 2000;

/** Answers a request whose body may not have arrived yet. */
export function refuse(
  request: IncomingMessage,
  response: ServerResponse,
  error: SidecarError,
  headers?: Readonly<Record<string, string>>,
): void {
  sendError(response, error, undefined, headers);
  discardBody(request);
}

/** Reads the rest of an answered request and throws it away, or the client would never see the answer. */
export function discardBody(request: IncomingMessage): void {
  if (request.complete) return;
  request.resume();
  const timer = setTimeout(() => request.destroy(), LINGER_MS);
  request.once("close", () => clearTimeout(timer));
}
