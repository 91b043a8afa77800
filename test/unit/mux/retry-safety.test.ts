import { describe, expect, it } from "vitest";
import { isProtocolRead } from "../../../src/mux/retry-safety.ts";

describe("isProtocolRead", () => {
  it.each([
    "ping",
    "tools/list",
    "resources/list",
    "resources/templates/list",
    "resources/read",
    "prompts/list",
    "prompts/get",
    "completion/complete",
  ])("takes %s for safe to repeat", (method) => {
    expect(isProtocolRead(method)).toBe(true);
  });

  it.each(["tools/call", "logging/setLevel", "resources/subscribe", "x-vendor/list", "tools/list ", "constructor", ""])(
    "takes %j for possibly not safe to repeat",
    (method) => {
      expect(isProtocolRead(method)).toBe(false);
    },
  );
});
