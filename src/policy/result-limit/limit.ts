import { detached } from "../../json/strings.ts";
import { bytesOf, isString, limitContent, shortenText, textItem } from "./cut.ts";
import { findParts, type Part, type Parts } from "./find.ts";

/** The share of the limit for unknown members of a result, and the same again for those of its `_meta`. */
const UNKNOWN_SHARE = 1 / 8;
const MAX_CODE_LENGTH = 32;
const RESULT_NAMES: ReadonlySet<string> = new Set(["content", "structuredContent", "isError", "_meta", "task"]);
const MARK_NAMES: ReadonlySet<string> = new Set(["truncated", "originalBytes", "keptBytes"]);
/** The members of a task that a client needs to get its result later. */
const TASK_NAMES: readonly string[] = ["taskId", "status", "createdAt", "lastUpdatedAt", "ttl", "pollInterval"];
const NO_PARTS: Parts = new Map();

const IS_ERROR = '"isError":true';
const NOT_A_RESULT = `"content":[${textItem("[Response too large and not a tool result; content omitted]")}]`;
/** The shortest error, without an id. */
export const NO_ROOM = '{"jsonrpc":"2.0","error":{"code":-32603,"message":"MAX_RESULT_BYTES leaves no room for a response"}}';
/** The size of the item that counts the omitted parts, with three numbers of ten digits and a comma. */
const LAST_ITEM_BYTES = lastItem(["0 of 0 items", "structuredContent of 0 bytes"]).length + 3 * 9 + 1;

interface LongResponse {
  readonly text: string;
  /** The beginning of the short response, with its id. */
  readonly open: string;
  readonly originalBytes: number;
  readonly maxBytes: number;
}

/** The possible responses: the best one first, and then the shortest one, which has no sizes. */
type Candidates = readonly [best: readonly string[], bare: string];

/**
 * Shortens the response to a tool call to at most `maxBytes` bytes of UTF-8. It stays a valid response of the same kind with the same id.
 * docs/decisions/0012 says which parts are omitted.
 *
 * @param body the text of a JSON-RPC response.
 * @param requestId the JSON text of its id, for a response with so many members that the id is not found.
 * @returns undefined if the body fits. If even the shortest response is longer than `maxBytes`, that one is returned.
 */
export function limitBody(body: string, maxBytes: number, requestId = ""): string | undefined {
  // A UTF-16 unit takes at most three bytes.
  if (body.length * 3 <= maxBytes) return undefined;
  const originalBytes = Buffer.byteLength(body);
  if (originalBytes <= maxBytes) return undefined;
  const { parts, isComplete } = findParts(body);
  const [id, result, error] = ["id", "result", "error"].map((name) => parts.get(name));
  const idText = id === undefined ? requestId : body.slice(id.start, id.end);
  const response = { text: body, open: `{"jsonrpc":"2.0",${idText === "" ? "" : `"id":${idText},`}`, originalBytes, maxBytes };
  // A member that was not read could be `isError`.
  const [best, bare] =
    error !== undefined && result === undefined
      ? limitError(response, error.members)
      : limitResult(response, isComplete ? result?.members : undefined);
  const shortest = bare.length < NO_ROOM.length ? bare : NO_ROOM;
  const shortened = [...best, bare, NO_ROOM].find((each) => Buffer.byteLength(each) <= maxBytes) ?? shortest;
  return detached(shortened, body);
}

function limitError(response: LongResponse, error: Parts = NO_PARTS): Candidates {
  const { text, open, maxBytes } = response;
  const [code, message] = [error.get("code"), error.get("message")];
  const codeText = code !== undefined && code.end - code.start <= MAX_CODE_LENGTH ? text.slice(code.start, code.end) : "-32603";
  const write = (inner: string): string => withMarks(response, `${open}"error":{"code":${codeText},"message":"${inner}","data":{`);
  const roomBytes = maxBytes - Buffer.byteLength(write(""));
  const inner = isString(text, message) ? shortenText(text, message, roomBytes) : "[truncated]";
  return [[write(inner)], `${open}"error":{"code":${codeText},"message":"[truncated]"}}`];
}

function limitResult(response: LongResponse, result: Parts = NO_PARTS): Candidates {
  const { text, open, maxBytes } = response;
  const [content, structured, flag, task] = ["content", "structuredContent", "isError", "task"].map((name) => result.get(name));
  const unknown = fitting(text, withoutNames(result, RESULT_NAMES), maxBytes * UNKNOWN_SHARE);
  const meta = fitting(text, withoutNames(result.get("_meta")?.members, MARK_NAMES), maxBytes * UNKNOWN_SHARE);
  const write = (members: readonly string[]): string =>
    withMarks(response, `${open}"result":{${members.join(",")},"_meta":{${meta.map((each) => `${each},`).join("")}`);
  const bare = (flags: readonly string[]): string =>
    `${open}"result":{${['"content":[]', ...flags].join(",")},"_meta":{"truncated":true}}}`;

  if (content?.elements !== undefined || (content === undefined && structured !== undefined)) {
    const flagText = flag === undefined ? "" : text.slice(flag.start, flag.end);
    const flags = flagText === "true" || flagText === "false" ? [`"isError":${flagText}`] : [];
    const roomBytes = maxBytes - Buffer.byteLength(write(['"content":[]', ...flags, ...unknown]));
    return [[write([...limitMembers(text, content, structured, roomBytes), ...flags, ...unknown])], bare(flags)];
  }
  const needed = TASK_NAMES.flatMap((name) => task?.members?.get(name) ?? []);
  const kept = fitting(text, needed, maxBytes);
  const isTask = task?.members?.has("taskId") === true && kept.length === needed.length;
  const taskResponses = isTask ? [write([`"task":{${kept.join(",")}}`, ...unknown])] : [];
  return [[...taskResponses, write([NOT_A_RESULT, IS_ERROR])], bare([IS_ERROR])];
}

/** Returns the content of a result, and its structuredContent if that fits beside the content. */
function limitMembers(text: string, content: Part | undefined, structured: Part | undefined, roomBytes: number): string[] {
  const { elements = [], elementCount = 0 } = content ?? {};
  const itemsBytes = elementCount <= 1 && structured === undefined ? roomBytes : roomBytes - LAST_ITEM_BYTES;
  const items = limitContent(text, elements, itemsBytes);
  const leftBytes = itemsBytes - Buffer.byteLength(items.join(","));
  const structuredMember = structured === undefined ? [] : fitting(text, [structured], leftBytes);
  const omitted: string[] = [];
  if (items.length < elementCount) omitted.push(`${elementCount - items.length} of ${elementCount} items`);
  if (structured !== undefined && structuredMember.length === 0) omitted.push(`structuredContent of ${bytesOf(text, structured)} bytes`);
  if (omitted.length > 0) items.push(lastItem(omitted));
  return [`"content":[${items.join(",")}]`, ...structuredMember];
}

function lastItem(omitted: readonly string[]): string {
  return textItem(`[omitted: ${omitted.join(", ")}; ask for less at a time]`);
}

/** Returns `start` with the marks at its end. `keptBytes` is the size of the whole, so spaces keep the width of the number fixed. */
function withMarks({ originalBytes }: LongResponse, start: string): string {
  const marked = `${start}"truncated":true,"originalBytes":${originalBytes},"keptBytes":`;
  const width = String(originalBytes).length;
  const keptBytes = Buffer.byteLength(marked) + width + "}}}".length;
  return `${marked}${String(keptBytes).padEnd(width)}}}}`;
}

function withoutNames(parts: Parts = NO_PARTS, names: ReadonlySet<string>): Part[] {
  return [...parts].filter(([name]) => !names.has(name)).map(([, part]) => part);
}

/** Returns each member that fits in the remaining room, with its name and spelling unchanged. Each one counts with a comma. */
function fitting(text: string, members: readonly Part[], roomBytes: number): string[] {
  let leftBytes = roomBytes;
  return members
    .map(({ from, end }) => text.slice(from, end))
    .filter((member) => {
      const bytes = Buffer.byteLength(member) + 1;
      if (bytes > leftBytes) return false;
      leftBytes -= bytes;
      return true;
    });
}
