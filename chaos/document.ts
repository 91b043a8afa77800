// Writes measured tables into a document, so that figures are not copied by hand.

import { readFileSync, writeFileSync } from "node:fs";
import { replaceSection } from "../docs/section.ts";

/** Replaces the text between `<!-- NAME: begin … -->` and `<!-- NAME: end -->` in a file. */
export function writeSection(file: string, name: string, text: string): void {
  writeFileSync(file, replaceSection({ path: file, text: readFileSync(file, "utf8") }, name, text));
}
