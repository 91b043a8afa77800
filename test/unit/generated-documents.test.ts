import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { GENERATED_DOCUMENTS } from "../../docs/generate.ts";
import { ALL_OPTIONS } from "../../src/config/describe.ts";
import { ERROR_CATALOG } from "../../src/errors.ts";

function document(name: string): string {
  return readFileSync(new URL(`../../docs/${name}`, import.meta.url), "utf8");
}

describe("generated documents", () => {
  it("are the configuration, the errors, and the options that README.md shows", () => {
    expect(Object.keys(GENERATED_DOCUMENTS)).toEqual(["CONFIGURATION.md", "ERRORS.md", "../README.md"]);
  });

  it.each(Object.entries(GENERATED_DOCUMENTS))("say what the program says: %s is not stale (else: npm run docs)", (name, generate) => {
    expect(document(name)).toBe(generate());
  });

  it("have a row for every option and every error", () => {
    const configuration = document("CONFIGURATION.md").split("\n");
    for (const { variable } of ALL_OPTIONS) expect(configuration.filter((line) => line.startsWith(`| \`${variable}\` |`))).toHaveLength(1);
    const errors = document("ERRORS.md").split("\n");
    for (const code of Object.keys(ERROR_CATALOG)) expect(errors.filter((line) => line.startsWith(`| \`${code}\` |`))).toHaveLength(1);
  });
});
