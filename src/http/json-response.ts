import type { ServerResponse } from "node:http";
import { SidecarError } from "../errors.ts";
import type { ClientMessageProblem } from "../protocol/client-message.ts";
import { internalError } from "../lane/failures.ts";
import { errorBody, errorHeaders, errorStatus } from "./error-response.ts";
import { noteRejection } from "./request-log/rejections.ts";

/** A longer body is encoded once, into bytes that the socket takes as they are. A text would be copied again. In UTF-16 units. */
const LONG_BODY_LENGTH = 64 * 1024;

/** Sends a JSON body and ends the response. Does nothing if the client has disconnected or the response has begun. */
export function sendJson(response: ServerResponse, httpStatus: number, body: string, headers?: Readonly<Record<string, string>>): void {
  if (response.headersSent || response.destroyed) return;
  const content = body.length > LONG_BODY_LENGTH ? Buffer.from(body) : body;
  response.writeHead(httpStatus, { "Content-Type": "application/json", "Content-Length": Buffer.byteLength(content), ...headers });
  response.end(content);
}

/** Sends JSON texts as one array. They are not joined, because the array may be longer than the longest possible text. */
export function sendJsonArray(response: ServerResponse, bodies: readonly string[]): void {
  if (response.headersSent || response.destroyed) return;
  const parts: Uint8Array[] = [];
  let text = "[";
  for (const [index, body] of bodies.entries()) {
    text += index === 0 ? body : `,${body}`;
    if (text.length <= LONG_BODY_LENGTH) continue;
    parts.push(Buffer.from(text));
    text = "";
  }
  const last = Buffer.from(`${text}]`);
  const length = parts.reduce((sum, part) => sum + part.length, last.length);
  response.writeHead(200, { "Content-Type": "application/json", "Content-Length": length });
  for (const part of parts) response.write(part);
  response.end(last);
}

/** Sends 202 without a body. */
export function sendAccepted(response: ServerResponse): void {
  if (response.headersSent || response.destroyed) return;
  response.writeHead(202, { "Content-Length": 0 }).end();
}

export function sendError(
  response: ServerResponse,
  error: SidecarError,
  idText?: string,
  headers?: Readonly<Record<string, string>>,
): void {
  sendRejection(response, error, errorBody(error, idText), headers);
}

/** Sends an error to a request without an exchange. @param reason undefined if the error may quote the body or the URL. */
export function sendRejection(
  response: ServerResponse,
  error: SidecarError,
  body: string,
  headers?: Readonly<Record<string, string>>,
  reason?: string,
): void {
  noteRejection(response, error, reason);
  sendJson(response, errorStatus(error), body, { ...errorHeaders(error), ...headers });
}

/**
 * Ends a response after a defect: with an error, or by closing the connection if the response has begun.
 *
 * @param sent true if the request may have reached the server.
 */
export function sendDefect(response: ServerResponse, sent: boolean): void {
  if (response.headersSent) response.destroy();
  else sendError(response, internalError(sent));
}

/** Rejects a body that is not a valid message. */
export function sendProblem(response: ServerResponse, { code, reason, idText }: ClientMessageProblem): void {
  sendError(response, new SidecarError(code, `${reason.charAt(0).toUpperCase()}${reason.slice(1)}.`), idText);
}
