import { existsSync, readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { OPTIONS } from "../../src/config/options.ts";
import { ERROR_CATALOG } from "../../src/error-catalog/error-catalog.ts";

const ROOT = new URL("../../", import.meta.url);
const SECURITY = readFileSync(new URL("SECURITY.md", ROOT), "utf8");
/** The rows of its tables, without their heads. */
const PROMISES = SECURITY.split("\n").filter((line) => line.startsWith("| ") && !line.startsWith("| promise") && !line.startsWith("| ---"));

describe("SECURITY.md", () => {
  it("each promise names tests that exist", () => {
    expect(PROMISES.length).toBeGreaterThan(15);
    for (const promise of PROMISES) {
      const tests = [...(promise.split(" | ")[1] ?? "").matchAll(/`([^`]+)`/g)].map(([, path = ""]) => path);
      expect({ promise, tests }).not.toEqual({ promise, tests: [] });
      expect(tests.filter((path) => !/^test\/.*\.test\.ts$/.test(path) || !existsSync(new URL(path, ROOT)))).toEqual([]);
    }
  });

  it("each setting that is named exists", () => {
    const known = new Set(Object.values(OPTIONS).map(({ variable }) => variable.replace("CLAW_MCP_STDIO_", "")));
    const named = [...SECURITY.matchAll(/\b[A-Z]+(?:_[A-Z]+)+\b/g)]
      .map(([name]) => name)
      .filter((name) => !/^(?:CLAW_MCP|NODE)_/.test(name));
    expect(named.length).toBeGreaterThan(20);
    expect(named.filter((name) => !known.has(name) && !(name in ERROR_CATALOG))).toEqual([]);
  });
});
