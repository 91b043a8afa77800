import { isJsonObject } from "../../jsonrpc/message.ts";

/** The same for values that are equal as JSON Schema says: whatever the order of their members. */
export function canonicalText(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonicalText).join(",")}]`;
  if (!isJsonObject(value)) return JSON.stringify(value);
  const members = Object.keys(value)
    .sort()
    .map((name) => `${JSON.stringify(name)}:${canonicalText(value[name])}`);
  return `{${members.join(",")}}`;
}
