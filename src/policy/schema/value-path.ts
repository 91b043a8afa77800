import { shorten } from "../../json/text.ts";

const MAX_PATH_LENGTH = 250;
const PLAIN_NAME = /^[A-Za-z_$][\w$-]*$/;

/** A name or text of a client or a server, as one short piece of a line: quoted, without line breaks. */
export function quoted(text: string): string {
  return JSON.stringify(shorten(text));
}

/** @returns the names and indexes on the way to a value. */
export function stepsOf(pointer: string): string[] {
  return pointer
    .split("/")
    .slice(1)
    .map((step) => step.replaceAll("~1", "/").replaceAll("~0", "~"));
}

/** Where in the arguments something is, as programmers write it: `options.limit`, `items[3].id`, `["odd name"]`. */
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
