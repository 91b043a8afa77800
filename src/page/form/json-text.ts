import { isObject } from "./json-object.ts";

/**
 * Returns the object of a JSON text, or an error message. An empty text is an empty object.
 *
 * @param isExact true to keep numbers as they are written, for `JSON.stringify` only.
 */
export function parsedObject(text: string, isExact: boolean): Readonly<Record<string, unknown>> | string {
  if (text.trim() === "") return {};
  try {
    const value: unknown = isExact ? JSON.parse(text, exactNumber) : JSON.parse(text);
    return isObject(value) ? value : "The arguments must be a JSON object.";
  } catch (error) {
    return `Not valid JSON: ${error instanceof Error ? error.message : String(error)}`;
  }
}

/** `JSON.rawJSON` of ES2026, which some browsers lack. */
const { rawJSON } = JSON as { readonly rawJSON?: (text: string) => unknown };

/** Keeps a number that a double cannot hold. */
function exactNumber(this: unknown, _key: string, value: unknown, context?: { readonly source?: string }): unknown {
  const source = context?.source;
  return typeof value === "number" && source !== undefined && rawJSON !== undefined && String(value) !== source ? rawJSON(source) : value;
}
