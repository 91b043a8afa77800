import { ResponseOutline } from "./response-outline.ts";
import { textItem } from "./result-budget.ts";
import { shortenError } from "./shortened-error.ts";
import { shortenCallResult } from "./shortened-result.ts";
import { shortenTaskResult } from "./shortened-task.ts";
import { openError, openResult, readFlag, type TooLong } from "./too-long.ts";
import { withMarks } from "./truncation-marks.ts";

const TOLD = "[truncated]";
/** A longer id is no one's that waits for an answer as short as that. */
const MAX_SHORT_ID = 256;
const IS_ERROR = ',"isError":true';
const NOT_SHORTENED = "[The answer is too long, and no tool result that the sidecar could shorten]";
const ID_TOO_LONG = '{"jsonrpc":"2.0","error":{"code":-32603,"message":"The request id leaves no room for an answer"}}';

/**
 * Shortens the answer to a tool call to at most `maxBytes` bytes of UTF-8: still valid, still of the same kind, with the same id, and
 * with `"truncated": true` in `_meta`, or in `data` of an error. What is left out is told in docs/decisions/0012.
 *
 * @param body the text of a JSON-RPC response.
 * @param requestId the JSON text of the id that it answers, for a response with so many members that its own is not found.
 * @returns undefined where it fits. What is longer nevertheless is the shortest answer there is: below 128 bytes there may be none.
 */
export function limitBody(body: string, maxBytes: number, requestId = ""): string | undefined {
  // No UTF-16 unit takes more.
  if (body.length * 3 <= maxBytes) return undefined;
  const originalBytes = Buffer.byteLength(body);
  if (originalBytes <= maxBytes) return undefined;
  const outline = new ResponseOutline(body, maxBytes);
  const id = outline.envelope.get("id");
  const idText = id === undefined ? requestId : body.slice(id.start, id.end);
  const idMember = idText === "" ? "" : `"id":${idText},`;
  const tooLong = { text: body, outline, idMember, originalBytes, maxBytes };
  // A part of the text would keep all of it in memory for as long as the answer is kept; a copy does not.
  return Buffer.from(shorten(tooLong)).toString();
}

function shorten(tooLong: TooLong): string {
  const { maxBytes, idMember } = tooLong;
  for (const write of [writeShort, writeTold, writeBare]) {
    const answer = write(tooLong);
    if (answer !== undefined && Buffer.byteLength(answer) <= maxBytes) return answer;
  }
  return idMember.length > MAX_SHORT_ID || ID_TOO_LONG.length <= maxBytes ? ID_TOO_LONG : writeBare(tooLong);
}

function writeShort(tooLong: TooLong): string | undefined {
  const { outline } = tooLong;
  if (isErrorResponse(outline)) return shortenError(tooLong);
  // Members that were not read could say that it is an error.
  if (!outline.isResultComplete) return undefined;
  if (isCallResult(outline)) return shortenCallResult(tooLong);
  return shortenTaskResult(tooLong);
}

/** Says that something is missing, and how much. */
function writeTold(tooLong: TooLong): string {
  const { text, outline, originalBytes } = tooLong;
  const sizes = { originalBytes, droppedItems: 0, itemCount: 0 };
  return withMarks(sizes, ({ members, line }, padding) => {
    if (isErrorResponse(outline)) return `${openError(tooLong)}"message":"${TOLD}","data":{${members}}${padding}}}`;
    const reason = isCallResult(outline) ? line : NOT_SHORTENED;
    const flag = isCallResult(outline) ? readFlag(text, outline) : IS_ERROR;
    return `${openResult(tooLong)}"content":[${textItem(reason)}]${flag},"_meta":{${members}}${padding}}}`;
  });
}

/** The shortest answer to this request that can be told from a whole one. */
function writeBare(tooLong: TooLong): string {
  const { text, outline } = tooLong;
  if (isErrorResponse(outline)) return `${openError(tooLong)}"message":"${TOLD}"}}`;
  const flag = isCallResult(outline) ? readFlag(text, outline) : IS_ERROR;
  return `${openResult(tooLong)}"content":[]${flag},"_meta":{"truncated":true}}}`;
}

function isErrorResponse({ envelope }: ResponseOutline): boolean {
  return envelope.has("error") && !envelope.has("result");
}

function isCallResult({ result, content, isResultComplete }: ResponseOutline): boolean {
  if (!isResultComplete) return false;
  return content !== undefined || (result?.has("structuredContent") === true && !result.has("content"));
}
