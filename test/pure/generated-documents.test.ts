import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { GENERATED_DOCUMENTS } from "../../docs/generate.ts";

it.each(Object.entries(GENERATED_DOCUMENTS))("match what `npm run docs` writes: %s", (name, generate) => {
  expect(readFileSync(new URL(`../../docs/${name}`, import.meta.url), "utf8")).toBe(generate());
});
