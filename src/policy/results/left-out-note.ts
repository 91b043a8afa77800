import type { Span } from "../../json/strings.ts";
import { Code } from "../../json/tokens.ts";
import { bytesOf, isStringValue, type Item, type Member, type MemberMap, readString } from "./response-outline.ts";

/** Longer names of types and resources are not worth repeating. */
const MAX_NAME_LENGTH = 200;

/** What a reader is told in place of an item: what it was, and how long, as in `[image/png, 48213 bytes: left out by the sidecar]`. */
export function leftOutNote(text: string, item: Item): string {
  const { members } = item;
  const type = nameIn(text, members?.get("type")) ?? "item";
  const mimeType = nameIn(text, members?.get("mimeType"));
  const data = members?.get("data");
  if ((type === "image" || type === "audio") && isStringValue(text, data)) return note([mimeType ?? type], base64Bytes(text, data));
  const resource = members?.get("resource");
  if (type === "resource" && resource !== undefined && text.charAt(resource.start) === "{")
    return resourceNote(text, resource, item.resource);
  return note([type, nameIn(text, members?.get("uri")), mimeType], bytesOf(text, item));
}

function resourceNote(text: string, resource: Member, members: MemberMap | undefined): string {
  const [uri, mimeType, blob, inText] = ["uri", "mimeType", "blob", "text"].map((name) => members?.get(name));
  const names = ["resource", nameIn(text, uri), nameIn(text, mimeType)];
  if (isStringValue(text, blob)) return note(names, base64Bytes(text, blob));
  return note(names, bytesOf(text, isStringValue(text, inText) ? { start: inText.start + 1, end: inText.end - 1 } : resource));
}

function note(names: readonly (string | undefined)[], bytes: number): string {
  return `[${names.filter((name) => name !== undefined).join(", ")}, ${bytes} bytes: left out by the sidecar]`;
}

function nameIn(text: string, span: Span | undefined): string | undefined {
  const name = readString(text, span, MAX_NAME_LENGTH);
  return name === "" ? undefined : name;
}

/** How many bytes a string of base64 stands for. */
function base64Bytes(text: string, { start, end }: Span): number {
  let length = end - start - 2;
  // Some encoders write `\/`; line ends count for nothing. One loop, since there may be thirty million.
  for (let index = start + 1; index < end; index++) {
    if (text.charCodeAt(index) === Code.backslash) length -= text.charCodeAt(++index) === Code.slash ? 1 : 2;
  }
  if (text.endsWith("==", end - 1)) length -= 2;
  else if (text.endsWith("=", end - 1)) length--;
  return Math.max(0, Math.floor((length * 3) / 4));
}
