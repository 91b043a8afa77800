import type { IncomingMessage, ServerResponse } from "node:http";
import type { SidecarError } from "../errors.ts";
import { sendError } from "./json-response.ts";

/** Time for a client to finish its request, and to read the response, before the connection of a rejected request is closed. */
export const LINGER_MS = 2000;

/** Rejects a request whose body may not have arrived completely. */
export function reject(
  request: IncomingMessage,
  response: ServerResponse,
  error: SidecarError,
  headers?: Readonly<Record<string, string>>,
): void {
  sendError(response, error, undefined, headers);
  discardBody(request);
}

/** Reads and discards the rest of a request that is already answered. Otherwise, the client would never see the response. */
export function discardBody(request: IncomingMessage): void {
  if (request.complete) return;
  request.resume();
  const timer = setTimeout(() => request.destroy(), LINGER_MS);
  request.once("close", () => clearTimeout(timer));
}
