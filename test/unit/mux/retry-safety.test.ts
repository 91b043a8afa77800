import { describe, expect, it } from "vitest";
import { effectOf } from "../../../src/mux/retry-safety.ts";

describe("effectOf", () => {
  it.each([
    "ping",
    "tools/list",
    "resources/list",
    "resources/templates/list",
    "resources/read",
    "prompts/list",
    "prompts/get",
    "completion/complete",
    "tasks/list",
    "tasks/get",
  ])("knows that %s only reads", (method) => {
    expect(effectOf(method)).toBe("reads");
  });

  it.each(["logging/setLevel", "resources/subscribe", "resources/unsubscribe"])("knows that %s comes to the same twice", (method) => {
    expect(effectOf(method)).toBe("same");
  });

  it.each(["tools/call", "tasks/cancel", "x-vendor/list", "tools/list ", "constructor", ""])("does not know what %j does", (method) => {
    expect(effectOf(method)).toBe("unknown");
  });
});
