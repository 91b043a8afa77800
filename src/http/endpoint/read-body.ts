import type { IncomingMessage } from "node:http";
import { isUtf8 } from "node:buffer";
import { SidecarError } from "../../errors.ts";
import { outOfMemory } from "../../lane/failures.ts";
import { hasJsonBody } from "./content-negotiation.ts";
import { discardBody } from "../reject.ts";

const NOT_READ = "The body was not read.";
const PARTLY_READ = "The body was read only in part.";

/** Bytes that are read before `isRejected` decides about the rest. */
const UNASKED_BYTES = 64 * 1024;

export interface BodyReader {
  /** Called once, before more than 64 KiB are read, with the data that has arrived. @returns true if it has answered the request. */
  isRejected(beginning: Buffer): boolean;
  /** Called before the body is read. @param bodyBytes its declared size; 0 if it is unknown. @returns false if there is no memory for it. */
  hasRoomFor(bodyBytes: number): boolean;
  /** Called for each part of a body that arrives in parts. @returns false if there is no memory for it. */
  reserve(partBytes: number): boolean;
  /** Called once with the text or the error, unless the request is rejected. */
  onBody(body: string | SidecarError): void;
}

/**
 * Reads a whole body as text. Its media type must be JSON. It uses callbacks, because a promise per message would cost more than the
 * reading.
 *
 * @returns a function that rejects the body for lack of memory, if it is still arriving.
 */
export function readBody(request: IncomingMessage, maxBytes: number, reader: BodyReader): () => void {
  if (!hasJsonBody(request)) {
    reader.onBody(new SidecarError("UNSUPPORTED_MEDIA_TYPE", "The body must be application/json in UTF-8, uncompressed."));
    return () => undefined;
  }
  const declaredBytes = Number(request.headers["content-length"] ?? 0);
  if (declaredBytes > maxBytes) {
    reader.onBody(tooLarge(maxBytes));
    return () => undefined;
  }
  if (!reader.hasRoomFor(declaredBytes)) {
    reader.onBody(outOfMemory(NOT_READ));
    return () => undefined;
  }
  let first: Buffer | undefined;
  let rest: Buffer[] | undefined;
  let length = 0;
  let isAdmitted = false;
  let isDone = false;
  const beginning = (): Buffer => (rest === undefined ? (first ?? Buffer.alloc(0)) : Buffer.concat(rest));
  const finish = (body: string | SidecarError): void => {
    if (isDone) return;
    isDone = true;
    // The listeners live until the request is answered, and would keep the chunks in memory.
    first = rest = undefined;
    reader.onBody(body);
  };
  request.on("data", (chunk: Buffer) => {
    length += chunk.length;
    if (isDone) return;
    if (length > maxBytes) finish(tooLarge(maxBytes));
    // A body in one part is read in this turn of the event loop.
    else if (chunk.length !== declaredBytes && !reader.reserve(chunk.length)) finish(outOfMemory(PARTLY_READ));
    else if (first === undefined) first = chunk;
    else (rest ??= [first]).push(chunk);
    if (isAdmitted || isDone || length <= UNASKED_BYTES) return;
    isAdmitted = true;
    if (!reader.isRejected(beginning())) return;
    isDone = true;
    first = rest = undefined;
    discardBody(request);
  });
  request.on("end", () => {
    if (isDone) return;
    const bytes = beginning();
    finish(isUtf8(bytes) ? bytes.toString("utf8") : new SidecarError("PARSE_ERROR", "The body is not valid UTF-8."));
  });
  const onEnded = (): void => {
    // This runs after every complete body too, so the error is created only if needed.
    if (!isDone) finish(incomplete());
  };
  request.on("error", onEnded);
  request.on("close", onEnded);
  return () => finish(outOfMemory(PARTLY_READ));
}

function tooLarge(maxBytes: number): SidecarError {
  return new SidecarError("BODY_TOO_LARGE", `The request body is larger than ${maxBytes} bytes.`, { limitBytes: maxBytes });
}

function incomplete(): SidecarError {
  return new SidecarError("BODY_INCOMPLETE", "The connection closed before the whole request body arrived.");
}
