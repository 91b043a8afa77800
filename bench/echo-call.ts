// The one tool call the load is made of, and the check of its answer.

import type { HttpResponse } from "./http-response-parser.ts";

const TEXT_START = Buffer.from('"text":"');
const QUOTE = 34;
const COMMA = 44;
const CLOSING_BRACE = 125;

export function echoCall(id: number, resultBytes: number): string {
  return `{"jsonrpc":"2.0","id":${id},"method":"tools/call","params":{"name":"echo","arguments":{"bytes":${resultBytes}}}}`;
}

/**
 * Returns what is wrong with an answer, or null. It looks at the bytes instead of
 * parsing them, as parsing 1 MB per answer would make the load process the
 * bottleneck; it works for JSON and for SSE bodies alike.
 */
export function findFault(response: HttpResponse, id: number, resultBytes: number): string | null {
  const { status, body } = response;
  if (status !== 200) return `status ${status}: ${excerpt(body)}`;
  const textStart = body.indexOf(TEXT_START) + TEXT_START.length;
  if (textStart < TEXT_START.length) return `no text result: ${excerpt(body)}`;
  // The text holds no quotes, so the next one ends it.
  const textEnd = body.indexOf(QUOTE, textStart);
  if (textEnd - textStart !== resultBytes) {
    return `result of ${textEnd - textStart} instead of ${resultBytes} bytes`;
  }
  if (!hasId(body.subarray(0, textStart), id) && !hasId(body.subarray(textEnd), id)) {
    return `answer to another request than ${id}: ${excerpt(body)}`;
  }
  return null;
}

function hasId(part: Buffer, id: number): boolean {
  const field = `"id":${id}`;
  const start = part.indexOf(field, 0, "latin1");
  if (start === -1) return false;
  const next = part[start + field.length];
  return next === COMMA || next === CLOSING_BRACE;
}

function excerpt(body: Buffer): string {
  return body.toString("utf8", 0, 200);
}
