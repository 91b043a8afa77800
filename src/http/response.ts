import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import accepts from "accepts";
import { parse } from "content-type";
import { findPath } from "../json/read.ts";
import { readValue } from "../json/value.ts";
import type { ClientMessageProblem } from "../mcp/client-message.ts";
import { ERROR_CATALOG, type ErrorEntry, JsonRpcErrorCode, SidecarError, type SidecarErrorCode } from "../mcp/errors.ts";
import { isModernVersion } from "../mcp/message.ts";
import { MAX_ERROR_LENGTH, type RejectedRequest } from "../observe/record.ts";
import type { ServerEra } from "../process/port.ts";
import { internalError } from "../server/failures.ts";
import type { Principal } from "../session/session.ts";
import type { AuthTokens } from "./auth-tokens.ts";

/** `originalUrl` is the whole target if it was in the absolute form, as with Express. */
export type RoutedRequest = IncomingMessage & { originalUrl?: string };

/** @param principal undefined if no token is configured or needed. */
export type Route = (request: IncomingMessage, response: ServerResponse, principal: Principal | undefined) => void;

export function holderOf({ socket }: IncomingMessage, principal: Principal | undefined): Principal | string {
  return principal ?? socket.remoteAddress ?? "unknown";
}

/** The headers of nearly all clients; they skip the parsers below. */
const USUAL_CONTENT_TYPE = "application/json";
const USUAL_ACCEPT = "application/json, text/event-stream";

const EVENT_STREAM_TYPE = "text/event-stream";

/** JSON does not define the charset, but some clients send it. */
const OFFERED_TYPES = [USUAL_CONTENT_TYPE, `${USUAL_CONTENT_TYPE}; charset=utf-8`];

export function hasJsonBody(request: IncomingMessage): boolean {
  const { "content-type": contentType, "content-encoding": encoding } = request.headers;
  if (encoding !== undefined && encoding.toLowerCase() !== "identity") return false;
  if (contentType === USUAL_CONTENT_TYPE) return true;
  if (contentType === undefined) return false;
  try {
    const { type, parameters } = parse(contentType);
    return type.toLowerCase() === USUAL_CONTENT_TYPE && (parameters["charset"] ?? "utf-8").toLowerCase() === "utf-8";
  } catch {
    return false;
  }
}

const USUALLY_ACCEPTED = { json: true, events: true };

/** A wildcard is not enough for events, because its sender may expect plain JSON. */
export function acceptedBy(request: IncomingMessage): Readonly<typeof USUALLY_ACCEPTED> {
  const { accept } = request.headers;
  if (accept === USUAL_ACCEPT) return USUALLY_ACCEPTED;
  const types = accept === undefined ? [] : (accepts(request).types() as string[]);
  return {
    json: accepts(request).type(OFFERED_TYPES) !== false,
    events: types.some((type) => type.toLowerCase() === EVENT_STREAM_TYPE),
  };
}

export function acceptsHtml(request: IncomingMessage): boolean {
  return accepts(request).type("html") !== false;
}

export function acceptsGzip(request: IncomingMessage): boolean {
  return accepts(request).encodings(["gzip", "identity"]) === "gzip";
}

/** A wildcard is enough: the response can only be a stream. */
export function permitsEventStream(request: IncomingMessage): boolean {
  return request.headers.accept === USUAL_ACCEPT || accepts(request).type(EVENT_STREAM_TYPE) !== false;
}

const { MethodNotFound, HeaderMismatch, MissingCapability, UnsupportedVersion, ServerError, SessionOrTimeout, InternalError } =
  JsonRpcErrorCode;

/** MCP 2026-07-28, basic/transports. All other errors of a server have 200. */
const MODERN_STATUSES: ReadonlyMap<unknown, number> = new Map([
  [MethodNotFound, 404],
  [HeaderMismatch, 400],
  [MissingCapability, 400],
  [UnsupportedVersion, 400],
]);

/** 200 if the request was sent, because proxies and clients may retry after an HTTP error. The eras have their own statuses. */
export function errorStatus({ code, details }: SidecarError, era: ServerEra = "legacy"): number {
  const { httpStatus, jsonRpcCode }: ErrorEntry = ERROR_CATALOG[code];
  const ofModern = era === "modern" ? MODERN_STATUSES.get(jsonRpcCode) : undefined;
  return ofModern ?? (details.sent ? 200 : httpStatus);
}

export function modernStatus(body: string): number {
  if (body.length > MAX_ERROR_LENGTH || !body.includes('"error"')) return 200;
  const code = findPath(body, 0, ["error", "code"]);
  return (code && MODERN_STATUSES.get(readValue(body, code))) ?? 200;
}

/** Without a known id, the response has none: `null` violates the MCP schema. UNAUTHORIZED has it, else Python clients do not show the message. */
export function errorBody({ code, message, data }: SidecarError, idText: string | undefined, era: ServerEra = "legacy"): string {
  const { jsonRpcCode, modernCode }: ErrorEntry = ERROR_CATALOG[code];
  // Revision 2026-07-28 reserves the codes from -32000 to -32019 for those of earlier revisions (basic, error codes).
  const isReserved = jsonRpcCode === ServerError || jsonRpcCode === SessionOrTimeout;
  const wireCode = era === "legacy" ? jsonRpcCode : (modernCode ?? (isReserved ? InternalError : jsonRpcCode));
  const id = idText ?? (code === "UNAUTHORIZED" && era === "legacy" ? "null" : undefined);
  return `{"jsonrpc":"2.0",${id === undefined ? "" : `"id":${id},`}"error":${JSON.stringify({ code: wireCode, message, data })}}`;
}

export function errorHeaders({ details: { retryAfterSeconds } }: SidecarError): Readonly<Record<string, string>> {
  return retryAfterSeconds === undefined ? {} : { "Retry-After": String(retryAfterSeconds) };
}

/** The functions that reject know no record, and a closed socket has no address. */
const REJECTIONS = new WeakMap<
  ServerResponse,
  { readonly code: SidecarErrorCode; readonly reason: string | undefined; readonly address: string | undefined }
>();

export function rejectionOf(response: ServerResponse, tokens: AuthTokens | undefined): RejectedRequest | undefined {
  const rejection = REJECTIONS.get(response);
  if (rejection === undefined) return undefined;
  const { code, reason, address } = rejection;
  const { authorization, "mcp-session-id": sessionId, "content-length": length } = response.req.headers;
  return {
    code,
    httpStatus: response.statusCode,
    reason,
    principal: tokens?.identify(authorization)?.name ?? address ?? "unknown",
    sessionId: sessionId?.toString(),
    requestBytes: length === undefined ? undefined : Number(length),
  };
}

/** A longer body is encoded once. In UTF-16 units. */
const LONG_BODY_LENGTH = 64 * 1024;

/** Does nothing if the client has disconnected or the response has begun. */
export function sendJson(response: ServerResponse, httpStatus: number, body: string, headers?: Readonly<Record<string, string>>): void {
  if (response.headersSent || response.destroyed) return;
  const content = body.length > LONG_BODY_LENGTH ? Buffer.from(body) : body;
  response.writeHead(httpStatus, { "Content-Type": "application/json", "Content-Length": Buffer.byteLength(content), ...headers });
  response.end(content);
}

/** The texts are not joined: the array may be longer than the longest text of V8. */
export function sendJsonArray(response: ServerResponse, bodies: readonly string[]): void {
  if (response.headersSent || response.destroyed) return;
  const parts = bodies.map((body, index) => Buffer.from(`${index === 0 ? "[" : ","}${body}`));
  const length = parts.reduce((sum, part) => sum + part.length, 1);
  response.writeHead(200, { "Content-Type": "application/json", "Content-Length": length });
  for (const part of parts) response.write(part);
  response.end("]");
}

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

/** @param reason undefined if the error may quote the body or the URL. */
export function sendRejection(
  response: ServerResponse,
  error: SidecarError,
  body: string,
  headers?: Readonly<Record<string, string>>,
  reason?: string,
): void {
  REJECTIONS.set(response, { code: error.code, reason, address: response.req.socket.remoteAddress });
  sendJson(response, errorStatus(error), body, { ...errorHeaders(error), ...headers });
}

/** Closes the connection if the response has begun. @param sent true if the request may have reached the server. */
export function sendDefect(response: ServerResponse, sent: boolean): void {
  if (response.headersSent) response.destroy();
  else sendError(response, internalError(sent));
}

export function sendProblem(response: ServerResponse, { code, reason, idText }: ClientMessageProblem): void {
  sendError(response, new SidecarError(code, `${reason.charAt(0).toUpperCase()}${reason.slice(1)}.`), idText);
}

const ON_BODY = 3;
const ON_MESSAGE_COMPLETE = 4;

/** Not documented by Node: without it, the functions here have no effect. */
interface NodeParser {
  onIncoming?: () => number;
  [ON_BODY]?: ((...values: readonly unknown[]) => unknown) | undefined;
  [ON_MESSAGE_COMPLETE]?: (...values: readonly unknown[]) => unknown;
}

/** The parser passes on all requests of up to 64 KiB that it has received, even after a pause or the end of the socket. */
export function stopParser(socket: Socket): void {
  const parser = parserOf(socket);
  // Any result but 0, 1 and 2 is an error to the parser.
  if (typeof parser?.onIncoming === "function") parser.onIncoming = () => -1;
}

/** The parser would call JavaScript with each chunk of the rest, of which ten thousand may arrive at once. */
function skipBody(socket: Socket): void {
  const parser = parserOf(socket);
  const { [ON_BODY]: onBody, [ON_MESSAGE_COMPLETE]: onComplete } = parser ?? {};
  if (parser === undefined || onBody?.name !== "parserOnBody" || onComplete?.name !== "parserOnMessageComplete") return;
  // The parser goes on with the next request, or with another connection.
  const restore = (): void => {
    [parser[ON_BODY], parser[ON_MESSAGE_COMPLETE]] = [onBody, onComplete];
    socket.off("close", restore);
  };
  parser[ON_BODY] = undefined;
  parser[ON_MESSAGE_COMPLETE] = () => {
    restore();
    return onComplete.call(parser);
  };
  socket.prependListener("close", restore);
}

function parserOf(socket: Socket): NodeParser | undefined {
  return (socket as { readonly parser?: NodeParser | null }).parser ?? undefined;
}

/** The time for a client to finish its request and to read the response, before the connection is closed. */
export const LINGER_MS = 2000;

/** The body may not have arrived completely. The error is logged, so it must not quote the body. Only the header shows the revision. */
export function reject(response: ServerResponse, error: SidecarError, headers?: Readonly<Record<string, string>>): void {
  const era = isModernVersion(response.req.headers["mcp-protocol-version"]?.toString()) ? "modern" : "legacy";
  sendRejection(response, error, errorBody(error, undefined, era), headers, error.message);
  discardBody(response.req, response);
}

/**
 * A client that is still writing would never see the response.
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
