import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { parseAllDocuments } from "yaml";

export const EXAMPLES = fileURLToPath(new URL("../../examples/", import.meta.url));

export function readExample(path: string): string {
  return readFileSync(`${EXAMPLES}${path}`, "utf8");
}

/** Parses all documents of a file as YAML 1.1, as Kubernetes does: 0440 is octal, and `on` is not text. */
export function parseDocuments(path: string): readonly unknown[] {
  const parsed = parseAllDocuments(readExample(path), { version: "1.1" });
  const problem = [...parsed].flatMap(({ errors }) => errors)[0];
  if (problem !== undefined) throw problem;
  return [...parsed].map((document) => document.toJS() as unknown);
}

export function parseExample(path: string): unknown {
  const documents = parseDocuments(path);
  if (documents.length !== 1) throw new Error(`${path}: ${documents.length} documents`);
  return documents[0];
}
