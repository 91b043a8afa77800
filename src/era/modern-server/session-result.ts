import { SidecarError } from "../../errors.ts";
import { applyEdits, type Edit, removeMembers } from "../../json/edit.ts";
import { findElements, findMembers, findPath, textOf } from "../../json/find.ts";
import { MetaKey } from "../../protocol/meta-key.ts";
import type { ResponseMessage } from "../../protocol/message.ts";
import { findResult, type FoundResult } from "../found-result.ts";
import { checkResultType } from "../result-type.ts";

/** The members of results that clients of sessions do not know (MCP 2026-07-28, key changes). */
const NEW_MEMBERS: ReadonlySet<string> = new Set(["resultType", "ttlMs", "cacheScope"]);
const WRAPPER_START = '{"result":';
/** The bytes that structured content gets if it is no object. */
export const WRAPPED_BYTES = WRAPPER_START.length + 1;
const TASK = '"task"';
const OBJECT_TYPE = '"object"';

/**
 * Returns a response of a server without sessions as a client of a session reads it.
 *
 * @param response the server's message, if the body differs from it in the id only.
 */
export function responseForSession(body: string, idText: string, method: string, response?: ResponseMessage): string | SidecarError {
  const found = findResult(body, idText, response);
  if (found === undefined || found.text[found.result.start] !== "{") return body;
  const error = checkSessionType(found) ?? checkResultType(found);
  if (error !== undefined) return error;
  const { text } = found;
  const edits = [...found.edits, ...newMemberEdits(found)];
  if (method === "tools/call") edits.push(...structuredEdits(text, found.result.start));
  if (method === "tools/list") edits.push(...outputSchemaEdits(text, found.result.start));
  return edits.length === found.edits.length ? body : applyEdits(text, edits);
}

/** Returns the error for a result that is none of a session: its client has declared no such tasks. */
function checkSessionType({ text, resultType: span }: FoundResult): SidecarError | undefined {
  if (textOf(text, span) !== TASK) return undefined;
  const message = `The MCP server answered with a result of the type ${TASK}, which the client has not declared. The request was sent and may have taken effect.`;
  return new SidecarError("UNKNOWN_RESULT_TYPE", message, { sent: true });
}

function newMemberEdits({ text, result, meta }: FoundResult): Edit[] {
  const ofMeta =
    meta === undefined || text[meta.start] !== "{" ? [] : removeMembers(text, meta.start, (name) => name === MetaKey.serverInfo);
  const isMetaEmpty =
    meta !== undefined && ofMeta.length > 0 && /^\{\s*\}$/.test(applyEdits(text.slice(meta.start, meta.end), shift(ofMeta, -meta.start)));
  const edits = removeMembers(text, result.start, (name) => NEW_MEMBERS.has(name) || (isMetaEmpty && name === "_meta"));
  return isMetaEmpty ? edits : [...edits, ...ofMeta];
}

function shift(edits: readonly Edit[], by: number): Edit[] {
  return edits.map(({ start, end, text }) => ({ start: start + by, end: end + by, text }));
}

/** In a session, structured content is an object (MCP 2025-11-25, schema, CallToolResult). Any other value becomes a member of one. */
function structuredEdits(text: string, result: number): Edit[] {
  const span = findMembers(text, result, ["structuredContent"]).spans[0];
  if (span === undefined || text[span.start] === "{") return [];
  return [{ ...span, text: `${WRAPPER_START}${text.slice(span.start, span.end)}}` }];
}

/** In a session, the schema of structured content is that of an object. Any other schema would not describe the wrapped value. */
function outputSchemaEdits(text: string, result: number): Edit[] {
  const tools = findMembers(text, result, ["tools"]).spans[0];
  if (tools === undefined || text[tools.start] !== "[") return [];
  return findElements(text, tools.start).flatMap(({ start }) => {
    const schema = text[start] === "{" ? findMembers(text, start, ["outputSchema"]).spans[0] : undefined;
    const type = schema === undefined ? undefined : findPath(text, schema.start, ["type"]);
    if (schema === undefined || (type !== undefined && text.slice(type.start, type.end) === OBJECT_TYPE)) return [];
    return removeMembers(text, start, (name) => name === "outputSchema");
  });
}
