import type { IncomingMessage, ServerResponse } from "node:http";
import type { SidecarError } from "../errors.ts";
import { isModernVersion } from "../protocol/versions.ts";
import { errorBody, modernErrorBody } from "./error-response.ts";
import { sendRejection } from "./json-response.ts";
import { skipBody } from "./node-parser.ts";

/** Time for a client to finish its request, and to read the response, before the connection of a rejected request is closed. */
export const LINGER_MS = 2000;

/**
 * Rejects a request whose body may not have arrived completely. The error must not quote the body, because its message is logged. Only the
 * header shows the revision of its client.
 */
export function reject(
  request: IncomingMessage,
  response: ServerResponse,
  error: SidecarError,
  headers?: Readonly<Record<string, string>>,
): void {
  const version = request.headers["mcp-protocol-version"]?.toString();
  const body = isModernVersion(version) ? modernErrorBody(error, undefined) : errorBody(error, undefined);
  sendRejection(response, error, body, headers, error.message);
  discardBody(request, response);
}

/**
 * Reads and discards the rest of a request that is already answered. Otherwise, the client would never see the response.
 *
 * @param response given if it may have to wait for those before it on the connection.
 */
export function discardBody(request: IncomingMessage, response?: ServerResponse): void {
  const { "content-length": length, "transfer-encoding": coding } = request.headers;
  if (request.complete || (length === undefined && coding === undefined)) return;
  skipBody(request.socket);
  request.resume();
  const timer = setTimeout(() => {
    if (response?.writableFinished === false) timer.refresh();
    else request.destroy();
  }, LINGER_MS);
  request.once("close", () => clearTimeout(timer));
}
