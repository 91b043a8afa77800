import { findMembers } from "../json/find.ts";
import { decodeString } from "../json/strings.ts";
import { shorten } from "../json/text.ts";
import { readValue } from "../json/values.ts";
import { type JsonObject, type ResponseMessage, Slot } from "../jsonrpc/message.ts";

/** What a server said of its tools. */
export interface Listing {
  /** The revision that clients of the endpoint get, who ask for the newest. */
  readonly protocolVersion: string;
  /** False where it did not declare the capability `tools`: then it was not asked for any. */
  readonly hasToolsCapability: boolean;
  readonly tools: readonly JsonObject[];
}

/** Why there is no listing: one line for the operator. */
export class DiscoverError extends Error {
  override readonly name = "DiscoverError";
  /** The last lines that the server wrote to stderr, with secrets masked. */
  readonly stderrTail: readonly string[];

  constructor(message: string, stderrTail: readonly string[] = []) {
    super(message);
    this.stderrTail = stderrTail;
  }
}

/** Bounds a listing from outside: by time, or by whoever runs `discover`. Its reason is a DiscoverError, or the time is up. */
export interface ListingBounds {
  readonly signal: AbortSignal;
  readonly timeoutMs: number;
}

/** Why a listing was ended from outside, while it waited for the answer to a request. */
export function endedError({ signal, timeoutMs }: ListingBounds, method: string): DiscoverError {
  const reason: unknown = signal.reason;
  return reason instanceof DiscoverError ? reason : new DiscoverError(`no answer to ${method} within ${timeoutMs} ms of the start`);
}

const MAX_ERROR_LENGTH = 500;

/** The result in an answer. @throws DiscoverError where it is an error. */
export function readAnswer({ outline, isError }: ResponseMessage, method: string): unknown {
  const { text } = outline;
  if (!isError) return readValue(text, outline.span(Slot.result));
  throw new DiscoverError(`the server refused ${method}: ${shorten(describeRefusal(outline.textAt(Slot.error) ?? ""), MAX_ERROR_LENGTH)}`);
}

/** @param errorText of a JSON-RPC error. */
function describeRefusal(errorText: string): string {
  if (!errorText.startsWith("{")) return errorText;
  const [code, message] = findMembers(errorText, 0, ["code", "message"]).spans;
  if (message === undefined || errorText.charAt(message.start) !== '"') return errorText;
  const codeText = code === undefined ? "undefined" : errorText.slice(code.start, code.end);
  return `${decodeString(errorText, message.start, message.end)} (code ${codeText})`;
}
