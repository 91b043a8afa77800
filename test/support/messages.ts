import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { ROOT } from "./markdown.ts";

const SOURCES = globSync("src/**/*.ts", { cwd: ROOT }).map((path) => readFileSync(join(ROOT, path), "utf8"));

/** Searches the source for a log call of this level with this message. */
export function isLogged(message: string, level: string): boolean {
  const pattern = new RegExp(`\\.${level}\\((?:(?!\\);)[\\s\\S])*?"${message.replaceAll(/\W/g, String.raw`\$&`)}"`);
  return SOURCES.some((source) => pattern.test(source));
}

/** Searches the source for this string literal. */
export function isLiteral(text: string): boolean {
  return SOURCES.some((source) => source.includes(JSON.stringify(text)));
}

/** Searches the source for this text, which may be a part of a longer message. */
export function isPrinted(text: string): boolean {
  return SOURCES.some((source) => source.includes(text));
}
