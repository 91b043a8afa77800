import { type Edit, removeItems } from "../../json/edit.ts";
import { decodeString } from "../../json/strings.ts";
import { skipValue, walkMembers } from "../../json/walk.ts";
import { type RequestMessage, Slot } from "../../protocol/message.ts";

const RESERVED_PREFIX = "io.modelcontextprotocol/";
/** The params of a request that answers questions (MCP 2026-07-28, basic/utilities/mrtr). A server with sessions has asked none. */
const RETRY_PARAMS: ReadonlySet<string> = new Set(["inputResponses", "requestState"]);

/**
 * Returns a request of a stateless client as a server with sessions gets it: without the reserved keys of `_meta` and without answers to
 * questions. All other bytes stay, such as progress tokens and trace keys.
 */
export function requestToLegacyServer(request: RequestMessage): RequestMessage {
  const { text, outline } = request;
  const edits = removeMembers(text, outline.start(Slot.params), (name) => RETRY_PARAMS.has(name));
  const meta = outline.start(Slot.meta);
  edits.push(...removeMembers(text, meta, (name) => name.startsWith(RESERVED_PREFIX)));
  return { ...request, edits };
}

/** Returns the edits that remove members from the object that starts at `start`. */
function removeMembers(text: string, start: number, isRemoved: (name: string) => boolean): Edit[] {
  const members: { start: number; end: number; isKept: boolean }[] = [];
  walkMembers(text, start, (keyStart, keyEnd, valueStart) => {
    const end = skipValue(text, valueStart);
    members.push({ start: keyStart, end, isKept: !isRemoved(decodeString(text, keyStart, keyEnd)) });
    return end;
  });
  return members.every(({ isKept }) => isKept) ? [] : removeItems(members);
}
