import { type Edit, removeMembers } from "../../json/edit.ts";
import { LastText } from "../last-text.ts";
import { type RequestMessage, Slot } from "../../protocol/message.ts";

const RESERVED_PREFIX = "io.modelcontextprotocol/";
/** The edits that remove the reserved keys, relative to `_meta`. */
const RESERVED_EDITS = new LastText((text) => removeMembers(text, 0, (name) => name.startsWith(RESERVED_PREFIX)));
/** The params of a request that answers questions (MCP 2026-07-28, basic/utilities/mrtr). A server with sessions has asked none. */
const RETRY_PARAMS: ReadonlySet<string> = new Set(["inputResponses", "requestState"]);

/**
 * Returns a request of a stateless client as a server with sessions gets it: without the reserved keys of `_meta` and without answers to
 * questions. All other bytes stay, such as progress tokens and trace keys.
 */
export function requestToLegacyServer(request: RequestMessage): RequestMessage {
  const { text, outline } = request;
  const edits: Edit[] = [];
  if (outline.has(Slot.inputResponses) || outline.has(Slot.repeatedState)) {
    edits.push(...removeMembers(text, outline.start(Slot.params), (name) => RETRY_PARAMS.has(name)));
  }
  const meta = outline.span(Slot.meta);
  if (meta !== undefined) {
    for (const { start, end, text: added } of RESERVED_EDITS.valueAt(text, meta)) {
      edits.push({ start: meta.start + start, end: meta.start + end, text: added });
    }
  }
  return { ...request, edits };
}
