import accepts from "accepts";
import type { IncomingMessage } from "node:http";
import { parse } from "content-type";

/** What practically every client sends, so that the parsers below run for the others only. */
const USUAL_CONTENT_TYPE = "application/json";
const USUAL_ACCEPT = "application/json, text/event-stream";

const EVENT_STREAM_TYPE = "text/event-stream";

/** One media type in two spellings, for a client that names the charset, which JSON does not have. */
const OFFERED_TYPES = [USUAL_CONTENT_TYPE, `${USUAL_CONTENT_TYPE}; charset=utf-8`];

/** Whether the body is declared as JSON that can be read here: UTF-8, not compressed. */
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

/** Whether the client reads JSON; one that sends no `Accept` reads anything. */
export function acceptsJson(request: IncomingMessage): boolean {
  return request.headers.accept === USUAL_ACCEPT || accepts(request).type(OFFERED_TYPES) !== false;
}

/** Whether the client says that it reads event streams. A wildcard does not say so: whoever sends one may expect plain JSON. */
export function acceptsEventStream(request: IncomingMessage): boolean {
  const { accept } = request.headers;
  if (accept === USUAL_ACCEPT) return true;
  if (accept === undefined) return false;
  const types = accepts(request).types() as string[];
  return types.some((type) => type.toLowerCase() === EVENT_STREAM_TYPE);
}
