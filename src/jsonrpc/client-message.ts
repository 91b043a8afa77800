import { classify, type InvalidMessage, isJsonObject, type Message } from "./message.ts";
import { copyOf, findMembers, type Members, type Span } from "./splice.ts";

/** A valid message with the text it came as. */
export interface ClientMessage {
  readonly message: Message;
  readonly text: string;
  /** Of the top-level `id` and `params`, in `text`. */
  readonly idSpan: Span | undefined;
  readonly paramsSpan: Span | undefined;
}

export interface ClientMessageProblem {
  readonly code: "PARSE_ERROR" | "INVALID_REQUEST";
  readonly reason: string;
  /** The JSON text of the id, when one can be given back. */
  readonly idText: string | undefined;
}

const ENVELOPE = ["jsonrpc", "id", "method", "params"];
const NO_MEMBERS: Members = { spans: [], duplicate: undefined };

/**
 * Reads one message of a client. A repeated envelope member is refused: the server behind might read the other one, and so act on
 * a method or id that was never looked at here.
 */
export function readClientMessage(text: string): ClientMessage | ClientMessageProblem {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return { code: "PARSE_ERROR", reason: "the body is not JSON", idText: undefined };
  }
  const { spans, duplicate } = isJsonObject(value) ? findMembers(text, 0, ENVELOPE) : NO_MEMBERS;
  const [, idSpan, , paramsSpan] = spans;
  const message = refuseNotificationWithId(classify(value));
  if (message.kind !== "invalid" && duplicate === undefined) return { message, text, idSpan, paramsSpan };
  // Given back as it was spelled, where it is one, and only one.
  const isIdReadable = message.kind !== "notification" && message.id !== undefined && idSpan !== undefined && duplicate !== "id";
  return {
    code: "INVALID_REQUEST",
    reason: message.kind === "invalid" ? message.reason : `"${duplicate}" occurs twice`,
    idText: isIdReadable ? text.slice(idSpan.start, idSpan.end) : undefined,
  };
}

/** The JSON text of the id, as it is spelled there; empty where there is none. */
export function idTextOf({ text, idSpan }: ClientMessage): string {
  return idSpan === undefined ? "" : copyOf(text, idSpan);
}

/** A message that was read already, with its spans. */
export function locate(message: Message, text: string): ClientMessage {
  const [, idSpan, , paramsSpan] = findMembers(text, 0, ENVELOPE).spans;
  return { message, text, idSpan, paramsSpan };
}

/** A server might obey it, and a `notifications/cancelled` that went by unread would name the request of somebody else. */
function refuseNotificationWithId(message: Message | InvalidMessage): Message | InvalidMessage {
  if (message.kind !== "request" || !message.method.startsWith("notifications/")) return message;
  return { kind: "invalid", reason: "a notification has no id", id: message.id };
}
