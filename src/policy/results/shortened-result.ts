import { contentWriter } from "./content-writer.ts";
import { KeptMembers } from "./kept-members.ts";
import { memberText, type MemberMap } from "./response-outline.ts";
import { shareBudget, textItem } from "./result-budget.ts";
import { openResult, readFlag, type TooLong } from "./too-long.ts";
import { MARK_NAMES, marksBytes, type Sizes, withMarks } from "./truncation-marks.ts";

/** What the other members of the result and of its `_meta` may have of the room before the content gets it. */
const EXTRAS_PART = 1 / 8;
const LINE_ITEM_BYTES = textItem("").length + 1;
const END_BYTES = '"content":[],"_meta":{}}}'.length;
const ENVELOPE_NAMES: ReadonlySet<string> = new Set(["jsonrpc", "id", "result"]);
const OWN_NAMES: ReadonlySet<string> = new Set(["content", "structuredContent", "isError", "_meta"]);
const NO_MEMBERS: MemberMap = new Map();

/**
 * A CallToolResult (MCP 2025-11-25, server/tools) in fewer bytes; what goes, and in which order, is in docs/decisions/0012.
 *
 * @returns undefined where there is no room for one.
 */
export function shortenCallResult(tooLong: TooLong): string | undefined {
  const { text, outline, originalBytes, maxBytes } = tooLong;
  const { envelope, result = NO_MEMBERS, meta = NO_MEMBERS, content = [], itemCount } = outline;
  const open = openResult(tooLong);
  const isErrorText = readFlag(text, outline);
  const sizes: Sizes = { originalBytes, droppedItems: itemCount, itemCount };
  const frameBytes = Buffer.byteLength(open) + isErrorText.length + END_BYTES + LINE_ITEM_BYTES;
  const roomBytes = maxBytes - frameBytes - marksBytes(sizes, maxBytes);
  if (roomBytes < 0) return undefined;

  const others = [...result.values()].filter(({ name }) => !OWN_NAMES.has(name));
  const metaMembers = [...meta.values()].filter(({ name }) => !MARK_NAMES.has(name));
  const extras = new KeptMembers(text, [...others, ...metaMembers], maxBytes);
  const extraBytes = extras.keep(roomBytes * EXTRAS_PART);
  const shared = shareBudget(text, content, roomBytes - extraBytes);
  const structured = new KeptMembers(
    text,
    [...result.values()].filter(({ name }) => name === "structuredContent"),
    maxBytes,
  );
  extras.keep(shared.leftBytes - structured.keep(shared.leftBytes));

  const rest = [...result.values()]
    .filter((member) => extras.has(member) || structured.has(member))
    .map((member) => `,${memberText(text, member)}`)
    .join("");
  const metaText = metaMembers
    .filter((member) => extras.has(member))
    .map((member) => memberText(text, member))
    .join(",");
  const writeContent = contentWriter(text, shared.kept);
  const isReadable =
    outline.isComplete &&
    envelope.keys().every((name) => ENVELOPE_NAMES.has(name)) &&
    result.has("isError") === (isErrorText !== "") &&
    result.has("_meta") === (outline.meta !== undefined) &&
    metaMembers.length === meta.size;
  const isWhole = shared.kept.length === itemCount && shared.kept.every(({ kind }) => kind === "whole");
  if (isReadable && isWhole && extras.isComplete && structured.isComplete) {
    // It was too long by white space only.
    const metaMember = outline.meta === undefined ? "" : `,"_meta":{${metaText}}`;
    return `${open}"content":[${writeContent()}]${isErrorText}${rest}${metaMember}}}`;
  }
  return withMarks({ ...sizes, droppedItems: itemCount - shared.kept.length }, ({ line, members }, padding) => {
    const metaWithMarks = metaText === "" ? members : `${metaText},${members}`;
    return `${open}"content":[${writeContent(line)}]${isErrorText}${rest},"_meta":{${metaWithMarks}}${padding}}}`;
  });
}
