import accepts from "accepts";
import type { IncomingMessage } from "node:http";
import { parse } from "content-type";

/** The headers of nearly all clients; they skip the parsers below. */
const USUAL_CONTENT_TYPE = "application/json";
const USUAL_ACCEPT = "application/json, text/event-stream";

const EVENT_STREAM_TYPE = "text/event-stream";

/** JSON with and without a charset. JSON does not define the parameter, but some clients send it. */
const OFFERED_TYPES = [USUAL_CONTENT_TYPE, `${USUAL_CONTENT_TYPE}; charset=utf-8`];

/** True if the headers declare uncompressed JSON in UTF-8. */
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

/** True if the client accepts JSON. Without an `Accept` header, it accepts everything. */
export function acceptsJson(request: IncomingMessage): boolean {
  return request.headers.accept === USUAL_ACCEPT || accepts(request).type(OFFERED_TYPES) !== false;
}

/** True if `Accept` names event streams. A wildcard is not enough, because its sender may expect plain JSON. */
export function acceptsEventStream(request: IncomingMessage): boolean {
  const { accept } = request.headers;
  if (accept === USUAL_ACCEPT) return true;
  if (accept === undefined) return false;
  const types = accepts(request).types() as string[];
  return types.some((type) => type.toLowerCase() === EVENT_STREAM_TYPE);
}

/** True if `Accept` permits HTML. */
export function acceptsHtml(request: IncomingMessage): boolean {
  return accepts(request).type("html") !== false;
}

/** True if the client takes compressed responses. */
export function acceptsGzip(request: IncomingMessage): boolean {
  return accepts(request).encodings(["gzip", "identity"]) === "gzip";
}

/** True if `Accept` permits event streams, also by a wildcard. For a response that can only be a stream. */
export function permitsEventStream(request: IncomingMessage): boolean {
  return request.headers.accept === USUAL_ACCEPT || accepts(request).type(EVENT_STREAM_TYPE) !== false;
}
