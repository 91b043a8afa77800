import { findMembers } from "../../json/find.ts";
import { decodeString } from "../../json/strings.ts";
import { shorten } from "../../json/text.ts";
import { readValue } from "../../json/values.ts";
import { type JsonObject, type ResponseMessage, Slot } from "../../protocol/message.ts";

/** A server's list of tools. */
export interface Listing {
  /** The revision that the endpoint negotiates with clients that request the newest. */
  readonly protocolVersion: string;
  /** False if the server does not declare the capability `tools`; `tools/list` is not sent then. */
  readonly hasToolsCapability: boolean;
  readonly tools: readonly JsonObject[];
}

/** A failure of a listing. The message is one line for the operator. */
export class DiscoverError extends Error {
  override readonly name = "DiscoverError";
  /** The last lines of the server's stderr, with secrets masked. */
  readonly stderrTail: readonly string[];

  constructor(message: string, stderrTail: readonly string[] = []) {
    super(message);
    this.stderrTail = stderrTail;
  }
}

/** The bounds of a listing. The signal's reason is a DiscoverError if `discover` is interrupted; any other reason is a timeout. */
export interface ListingBounds {
  /** Aborted with a DiscoverError as the reason, or by the time limit. */
  readonly signal: AbortSignal;
  readonly timeoutMs: number;
}

/** Returns the error of a listing that was aborted. @param method the request that was not answered yet. */
export function endedError({ signal, timeoutMs }: ListingBounds, method: string): DiscoverError {
  const reason: unknown = signal.reason;
  return reason instanceof DiscoverError ? reason : new DiscoverError(`no response to ${method} within ${timeoutMs} ms of the start`);
}

const MAX_ERROR_LENGTH = 500;

/** Returns the result of a response. @throws DiscoverError if the response is an error. */
export function readAnswer({ outline, isError }: ResponseMessage, method: string): unknown {
  const { text } = outline;
  if (!isError) return readValue(text, outline.span(Slot.result));
  const reason = shorten(describeRpcError(outline.textAt(Slot.error) ?? ""), MAX_ERROR_LENGTH);
  throw new DiscoverError(`the server answered ${method} with an error: ${reason}`);
}

/** Describes a JSON-RPC error by its message and code. @param errorText its JSON text. */
function describeRpcError(errorText: string): string {
  if (!errorText.startsWith("{")) return errorText;
  const [code, message] = findMembers(errorText, 0, ["code", "message"]).spans;
  if (message === undefined || errorText.charAt(message.start) !== '"') return errorText;
  const codeText = code === undefined ? "undefined" : errorText.slice(code.start, code.end);
  return `${decodeString(errorText, message.start, message.end)} (code ${codeText})`;
}
