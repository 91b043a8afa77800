import { SidecarError } from "../../errors.ts";
import { applyEdits, type Edit, removeMember } from "../../json/edit.ts";
import { removeMetaKey } from "../results/meta-edits.ts";
import { findMembers, findPath, stringOf } from "../../json/find.ts";
import { skipValue, walkElements } from "../../json/walk.ts";
import { MetaKey } from "../../protocol/meta-key.ts";
import type { ResponseMessage } from "../../protocol/message.ts";
import { findResult, type FoundResult } from "../results/found-result.ts";
import { checkResultType } from "../results/result-type.ts";

/** The members of results that clients of sessions do not know (MCP 2026-07-28, key changes). */
const NEW_MEMBERS: ReadonlySet<string> = new Set(["resultType", "ttlMs", "cacheScope"]);
const WRAPPER_START = '{"result":';
/** The bytes that structured content gets if it is not an object. */
export const WRAPPED_BYTES = WRAPPER_START.length + 1;
/** The types that no result of a session has. A result that asks the client is not a response, if its request may ask. */
const OTHER_TYPES: ReadonlySet<string | undefined> = new Set(["task", "input_required"]);
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
  const { start } = found.result;
  const ofResult = removeMetaKey(text, start, found.meta, MetaKey.serverInfo, NEW_MEMBERS);
  const ofMethod = method === "tools/call" ? structuredEdits(text, start) : method === "tools/list" ? outputSchemaEdits(text, start) : [];
  return ofResult.length + ofMethod.length === 0 ? body : applyEdits(text, found.edits.concat(ofResult, ofMethod));
}

/** Returns the error for a result of the new revision that a session cannot have. */
function checkSessionType({ text, resultType: span }: FoundResult): SidecarError | undefined {
  const type = stringOf(text, span);
  if (!OTHER_TYPES.has(type)) return undefined;
  const message = `The MCP server answered with a result of the type ${JSON.stringify(type)}, which this request of a session cannot have. The request was sent and may have taken effect.`;
  return new SidecarError("UNKNOWN_RESULT_TYPE", message, { sent: true });
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
  const edits: Edit[] = [];
  if (tools === undefined || text[tools.start] !== "[") return edits;
  // Keeps nothing for tools that do not change, because there may be very many.
  walkElements(text, tools.start, (start) => {
    const schema = text[start] === "{" ? findMembers(text, start, ["outputSchema"]).spans[0] : undefined;
    const type = schema === undefined ? undefined : findPath(text, schema.start, ["type"]);
    const isObject = type !== undefined && text.slice(type.start, type.end) === OBJECT_TYPE;
    if (schema !== undefined && !isObject) for (const edit of removeMember(text, start, "outputSchema")) edits.push(edit);
    return skipValue(text, start);
  });
  return edits;
}
