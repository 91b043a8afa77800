import { type ClientMessage, type ClientMessageProblem, readClientMessage } from "./client-message.ts";
import { findElements } from "./splice.ts";

/** As the official SDK has it. */
const MAX_BATCH_LENGTH = 100;

export function isBatch(text: string): boolean {
  return /^[ \t\r\n]*\[/.test(text);
}

/**
 * Reads a batch of a client (MCP 2025-03-26, basic/index). One bad message refuses all of it, before anything is carried: the sender
 * then knows that nothing was.
 */
export function readClientBatch(text: string): ClientMessage[] | ClientMessageProblem {
  try {
    JSON.parse(text);
  } catch {
    return { code: "PARSE_ERROR", reason: "the body is not JSON", idText: undefined };
  }
  const spans = findElements(text);
  if (spans.length === 0) return invalid("the batch is empty");
  if (spans.length > MAX_BATCH_LENGTH) return invalid(`the batch has ${spans.length} messages; ${MAX_BATCH_LENGTH} are allowed`);
  const messages: ClientMessage[] = [];
  for (const [index, { start, end }] of spans.entries()) {
    const message = readClientMessage(text.slice(start, end));
    if ("code" in message) return invalid(`message ${index + 1} of the batch: ${message.reason}`);
    const isInitialize = message.message.kind === "request" && message.message.method === "initialize";
    if (isInitialize) return invalid("initialize must not be part of a batch");
    messages.push(message);
  }
  return messages;
}

function invalid(reason: string): ClientMessageProblem {
  return { code: "INVALID_REQUEST", reason, idText: undefined };
}
