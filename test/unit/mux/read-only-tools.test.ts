import { describe, expect, it } from "vitest";
import { ReadOnlyTools } from "../../../src/mux/read-only-tools.ts";
import type { JsonObject } from "../../../src/jsonrpc/message.ts";

const READS = { annotations: { readOnlyHint: true } };

function toolsOf(...tools: readonly JsonObject[]): ReadOnlyTools {
  const known = new ReadOnlyTools();
  known.set(tools);
  return known;
}

describe("the tools of a server", () => {
  it.each([
    [{ readOnlyHint: true }, true],
    [{ readOnly: true }, true],
    [{ readOnlyHint: true, destructiveHint: true }, true],
    [{ readOnlyHint: true, readOnly: false }, false],
    [{ readOnlyHint: false, readOnly: true }, false],
    [{ readOnlyHint: "true" }, false],
    [{ idempotentHint: true }, false],
    [{}, false],
    [null, false],
    [undefined, false],
  ])("are read-only by their annotations %j: %j", (annotations, expected) => {
    expect(toolsOf({ name: "x", annotations }).has("x")).toBe(expected);
  });

  it("are not read-only where one of two with the same name is not", () => {
    const tools = toolsOf({ name: "a", ...READS }, { name: "b" }, { name: "b", ...READS }, { name: "a" }, { name: "c", ...READS });
    expect(["a", "b", "c", "constructor"].map((name) => tools.has(name))).toEqual([false, false, true, false]);
  });

  it("are none with a name that is no text, or beyond all measure", () => {
    const tools = toolsOf({ name: 7, ...READS }, { name: "x".repeat(1001), ...READS });
    expect([7, "7", "x".repeat(1001)].map((name) => tools.has(name))).toEqual([false, false, false]);
  });

  it("are none once they are forgotten", () => {
    const tools = toolsOf({ name: "a", ...READS });
    tools.forget();
    expect(tools.has("a")).toBe(false);
  });
});
