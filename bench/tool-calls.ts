// Calls of the tools of echo-child.js, and checks of their responses.

import type { Scenario } from "./load-contract.ts";
import type { HttpResponse } from "./http-response-parser.ts";
import { MODERN_VERSION } from "./mcp-session.ts";

const TEXT_START = Buffer.from('"text":"');
const QUOTE = 34;
const COMMA = 44;
const CLOSING_BRACE = 125;
/** Longer than all responses without an echoed text, including the frame that a target adds. */
const SMALL_ANSWER_BYTES = 400;

/** The `_meta` of a call without a session. */
const MODERN_META = `,"_meta":${JSON.stringify({
  "io.modelcontextprotocol/protocolVersion": MODERN_VERSION,
  "io.modelcontextprotocol/clientCapabilities": {},
  "io.modelcontextprotocol/clientInfo": { name: "bench-load", version: "1.0.0" },
})}`;

export function echoCall(id: number, { resultBytes, content, era }: Pick<Scenario, "resultBytes" | "content" | "era">): string {
  const args = `{"bytes":${resultBytes}${content === "json" ? ',"json":true' : ""}}`;
  return toolCall(id, `"name":"echo","arguments":${args}${era === "modern" ? MODERN_META : ""}`);
}

export function progressCall(id: number, count: number): string {
  return toolCall(id, `"name":"progress","arguments":{"count":${count}},"_meta":{"progressToken":"${progressToken(id)}"}`);
}

export function changeListCall(id: number): string {
  return toolCall(id, '"name":"change-list","arguments":{}');
}

/**
 * Returns the fault of a response, or null. It compares bytes instead of parsing,
 * because parsing 1 MB per response would make the load process the bottleneck.
 * It supports JSON and SSE bodies.
 */
export function findEchoFault(
  response: HttpResponse,
  id: number,
  { resultBytes, content }: Pick<Scenario, "resultBytes" | "content">,
): string | null {
  const { status, body } = response;
  if (status !== 200) return `status ${status}: ${excerpt(body)}`;
  const textStart = body.indexOf(TEXT_START) + TEXT_START.length;
  if (textStart < TEXT_START.length) return `no text result: ${excerpt(body)}`;
  if (content === "json") {
    if (body.length < resultBytes) return `body of ${body.length} bytes, less than ${resultBytes}`;
    return hasId(body.subarray(0, textStart), id) || hasAnswer(body, id) ? null : `answer to another request than ${id}: ${excerpt(body)}`;
  }
  // The text contains no quotes, so the next quote ends it.
  const textEnd = body.indexOf(QUOTE, textStart);
  if (textEnd - textStart !== resultBytes) {
    return `result of ${textEnd - textStart} instead of ${resultBytes} bytes`;
  }
  if (!hasId(body.subarray(0, textStart), id) && !hasId(body.subarray(textEnd), id)) {
    return `answer to another request than ${id}: ${excerpt(body)}`;
  }
  return null;
}

export interface ProgressCheck {
  arrived: number;
  fault: string | null;
}

/** Checks the response of a call with progress notifications. It counts the arrived ones, which must be right and in order. */
export function checkProgress(body: Buffer, id: number): ProgressCheck {
  const text = body.toString("latin1");
  let arrived = 0;
  let last = 0;
  for (const [, progress] of text.matchAll(/"progress":(\d+)/g)) {
    if (Number(progress) <= last) return { arrived, fault: `progress ${progress} after ${last}` };
    last = Number(progress);
    arrived += 1;
  }
  const tokens = text.split(`"progressToken":"${progressToken(id)}"`).length - 1;
  if (tokens !== arrived) return { arrived, fault: `${arrived - tokens} progress notifications with another token` };
  return { arrived, fault: hasAnswer(body, id) ? null : `no answer to ${id}: ${excerpt(body)}` };
}

/** True if the last message of a body is the response to this request. */
export function hasAnswer(body: Buffer, id: number): boolean {
  return hasId(body.subarray(-SMALL_ANSWER_BYTES), id);
}

function toolCall(id: number, params: string): string {
  return `{"jsonrpc":"2.0","id":${id},"method":"tools/call","params":{${params}}}`;
}

function progressToken(id: number): string {
  return `progress-of-${id}`;
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
