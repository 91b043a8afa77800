import type { IncomingMessage } from "node:http";
import { isUtf8 } from "node:buffer";
import { SidecarError } from "../../errors.ts";
import { hasJsonBody } from "./content-negotiation.ts";
import { discardBody } from "../reject.ts";

/** Bytes that are read before `isRejected` decides about the rest. */
const UNASKED_BYTES = 64 * 1024;

export interface BodyReader {
  /** Called once, before more than 64 KiB are read, with the data that has arrived. @returns true if it has answered the request. */
  isRejected(beginning: Buffer): boolean;
  /** Called once with the text or the error, unless the request is rejected. */
  onBody(body: string | SidecarError): void;
}

/**
 * Reads a whole body as text. Its media type must be JSON. It uses callbacks, because a promise per message would cost more than the
 * reading.
 */
export function readBody(request: IncomingMessage, maxBytes: number, reader: BodyReader): void {
  if (!hasJsonBody(request)) {
    reader.onBody(new SidecarError("UNSUPPORTED_MEDIA_TYPE", "The body must be application/json in UTF-8, uncompressed."));
    return;
  }
  if (Number(request.headers["content-length"]) > maxBytes) {
    reader.onBody(tooLarge(maxBytes));
    return;
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
}

function tooLarge(maxBytes: number): SidecarError {
  return new SidecarError("BODY_TOO_LARGE", `The request body is larger than ${maxBytes} bytes.`, { limitBytes: maxBytes });
}

function incomplete(): SidecarError {
  return new SidecarError("BODY_INCOMPLETE", "The connection closed before the whole request body arrived.");
}
