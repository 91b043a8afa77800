// Puts measured tables into a document, so that nobody copies figures by hand.

import { readFileSync, writeFileSync } from "node:fs";

/** Replaces what stands between `<!-- NAME: begin … -->` and `<!-- NAME: end -->`. */
export function writeSection(file: string, name: string, text: string): void {
  const document = readFileSync(file, "utf8");
  const begin = new RegExp(`<!-- ${name}: begin[^>]*-->\n`).exec(document);
  const end = document.indexOf(`<!-- ${name}: end -->`);
  if (begin === null || end === -1) throw new Error(`${file} has no section ${name}`);
  writeFileSync(file, `${document.slice(0, begin.index + begin[0].length)}\n${text}\n\n${document.slice(end)}`);
}
