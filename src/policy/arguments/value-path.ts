import { shorten } from "../../json/text.ts";

const MAX_PATH_LENGTH = 250;
const PLAIN_NAME = /^[A-Za-z_$][\w$-]*$/;

/** Returns a client's or server's text, shortened and quoted, without line breaks. */
export function quoted(text: string): string {
  return JSON.stringify(shorten(text));
}

/** Splits a JSON pointer into names and indexes. */
export function stepsOf(pointer: string): string[] {
  return pointer
    .split("/")
    .slice(1)
    .map((step) => step.replaceAll("~1", "/").replaceAll("~0", "~"));
}

/** Returns the path of a value in the notation of programs: `options.limit`, `items[3].id`, `["odd name"]`. */
export function readablePath(root: unknown, steps: readonly string[]): string {
  let path = "";
  let value = root;
  for (const step of steps) {
    path += Array.isArray(value) ? `[${step}]` : memberPath(step, path === "");
    value =
      typeof value === "object" && value !== null && Object.hasOwn(value, step) ? (value as Record<string, unknown>)[step] : undefined;
    if (path.length > MAX_PATH_LENGTH) return shorten(path, MAX_PATH_LENGTH);
  }
  return path;
}

function memberPath(name: string, isFirst: boolean): string {
  if (!PLAIN_NAME.test(name)) return `[${quoted(name)}]`;
  return `${isFirst ? "" : "."}${shorten(name)}`;
}
