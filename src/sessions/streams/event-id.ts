import { parseJson } from "../../json/values.ts";

/** A longer id of a request is not part of event ids. In bytes of JSON. */
const MAX_REQUEST_ID_BYTES = 64;

/** The stream of an event. */
export interface StreamName {
  /** True if a GET opened the stream. */
  readonly isStandalone: boolean;
  readonly streamId: number;
  /** The process that has opened the stream. */
  readonly replica: string;
  /** The JSON text of the id of the request whose response the stream carries; undefined for a GET stream and a batch. */
  readonly requestIdText?: string | undefined;
}

export interface EventPosition extends StreamName {
  /** The number of the event in its stream, from 1; 0 before the first. */
  readonly sequence: number;
}

/**
 * Returns an event id: `r3-17-REPLICA-REQUEST` for event 17 of stream 3 if a POST opened it, `s3-17-REPLICA` if a GET did. The id is unique
 * in the session and names the stream to resume (MCP 2025-11-25, basic/transports, resumability). With the id of the request in it, another
 * replica can answer that request with an error.
 */
export function formatEventId({ isStandalone, streamId, sequence, replica, requestIdText = "" }: EventPosition): string {
  const position = `${isStandalone ? "s" : "r"}${streamId}-${sequence}-${replica}`;
  const request = Buffer.from(requestIdText);
  return request.length === 0 || request.length > MAX_REQUEST_ID_BYTES ? position : `${position}-${request.toString("base64url")}`;
}

/** @returns undefined if the text is not an event id of a sidecar. */
export function parseEventId(text: string): EventPosition | undefined {
  const match = /^([rs])(\d{1,15})-(\d{1,15})-([0-9a-f]{8})(?:-([\w-]{1,88}))?$/.exec(text);
  if (match === null) return undefined;
  const [, kind, streamId, sequence, replica = "", request] = match;
  const requestIdText = request === undefined ? undefined : Buffer.from(request, "base64url").toString();
  if (requestIdText !== undefined && !isRequestId(requestIdText)) return undefined;
  return { isStandalone: kind === "s", streamId: Number(streamId), sequence: Number(sequence), replica, requestIdText };
}

/** True for the JSON text of a string or a number, without white space around it. */
function isRequestId(text: string): boolean {
  if (!/^["\d-].*["\d]$|^\d$/s.test(text)) return false;
  try {
    return ["string", "number"].includes(typeof parseJson(text));
  } catch {
    return false;
  }
}
