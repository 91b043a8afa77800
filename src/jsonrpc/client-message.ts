import { isOtherCase } from "./folded-names.ts";
import { classify, type InvalidMessage, isJsonObject, type Message } from "./message.ts";
import { describeAmbiguousId } from "./rewritten-members.ts";
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
const NO_MEMBERS: Members = { spans: [], duplicate: undefined, otherCase: undefined };

/**
 * Reads one message of a client. An envelope member that is repeated, or that some readers would take for one of them, since they do
 * not look at case, is refused: the server behind might read that one, and so act on a method or id that was never looked at here. So is
 * one of the ids in `params` that are rewritten on the way.
 */
export function readClientMessage(text: string): ClientMessage | ClientMessageProblem {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return { code: "PARSE_ERROR", reason: "the body is not JSON", idText: undefined };
  }
  const { spans, duplicate, otherCase } = isJsonObject(value) ? findMembers(text, 0, ENVELOPE) : NO_MEMBERS;
  const [, idSpan, , paramsSpan] = spans;
  const message = refuseNotificationWithId(classify(value));
  const params = message.kind === "request" || message.kind === "notification" ? message.params : undefined;
  const ambiguity =
    describeAmbiguity(duplicate, otherCase) ??
    (params === undefined || paramsSpan === undefined ? undefined : describeAmbiguousId(text, paramsSpan, params));
  if (message.kind !== "invalid" && ambiguity === undefined) return { message, text, idSpan, paramsSpan };
  // Given back as it was spelled, where it is one, and only one.
  const isOneId = duplicate !== "id" && (otherCase === undefined || !isOtherCase(otherCase, "id"));
  const isIdReadable = message.kind !== "notification" && message.id !== undefined && idSpan !== undefined && isOneId;
  return {
    code: "INVALID_REQUEST",
    reason: message.kind === "invalid" ? message.reason : (ambiguity ?? ""),
    idText: isIdReadable ? text.slice(idSpan.start, idSpan.end) : undefined,
  };
}

function describeAmbiguity(duplicate: string | undefined, otherCase: string | undefined): string | undefined {
  if (duplicate !== undefined) return `"${duplicate}" occurs twice`;
  return otherCase === undefined ? undefined : `${JSON.stringify(otherCase)} is a name of the envelope in another case`;
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
