import { findMembers } from "../../json/find.ts";
import type { Span } from "../../json/strings.ts";
import { bytesOf, isStringValue, type Item, type Member, readString } from "./response-outline.ts";

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
  if (type === "resource" && resource !== undefined && text.charAt(resource.start) === "{") return resourceNote(text, resource);
  return note([type, nameIn(text, members?.get("uri")), mimeType], bytesOf(text, item));
}

function resourceNote(text: string, resource: Member): string {
  const { spans } = findMembers(text, resource.start, ["uri", "mimeType", "blob", "text"]);
  const [uri, mimeType, blob, inText] = spans;
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
  const data = text.slice(start + 1, end - 1);
  let { length } = data;
  // Some encoders write `\/`; line ends count for nothing.
  for (let index = data.indexOf("\\"); index !== -1; index = data.indexOf("\\", index + 2)) {
    length -= data.charAt(index + 1) === "/" ? 1 : 2;
  }
  if (data.endsWith("==")) length -= 2;
  else if (data.endsWith("=")) length--;
  return Math.max(0, Math.floor((length * 3) / 4));
}
