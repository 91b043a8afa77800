import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { JsonObject } from "../../../src/mcp/message.ts";
import { type Capabilities, changingLists, findMissing, readCapabilities } from "../../../src/mcp/capabilities.ts";

function offer(capabilities: JsonObject, protocolVersion?: string): Capabilities {
  return { declared: capabilities, protocolVersion };
}

const FULL: JsonObject = {
  tools: { listChanged: true },
  resources: { subscribe: true, listChanged: false },
  logging: {},
  tasks: { requests: { tools: { call: {} } } },
  experimental: { "x.y": { version: "1", formats: ["a", "b"] } },
};

describe("the capabilities of a restarted server", () => {
  it.each<[string, JsonObject]>([
    ["tools", { ...FULL, tools: undefined }],
    ["tools.listChanged", { ...FULL, tools: {} }],
    ["tools.listChanged", { ...FULL, tools: { listChanged: "yes" } }],
    ["resources.subscribe", { ...FULL, resources: { subscribe: false, listChanged: true } }],
    ["logging", { ...FULL, logging: true }],
    ["logging", { ...FULL, logging: null }],
    ["tasks.requests.tools.call", { ...FULL, tasks: { requests: { tools: {} } } }],
    ["experimental.x.y.formats", { ...FULL, experimental: { "x.y": { version: "1" } } }],
    ["tools", {}],
  ])("the capability %s is missing in %j", (missing, now) => {
    expect(findMissing(offer(FULL), offer(now))).toBe(missing);
  });

  it("another protocol revision of a private server counts as missing", () => {
    expect(findMissing(offer({}, "2025-11-25"), offer({}, "2025-11-25"))).toBeUndefined();
    expect(findMissing(offer({}, "2025-11-25"), offer({}, "2025-06-18"))).toBe("protocol revision 2025-11-25 (now 2025-06-18)");
  });

  it.each(["constructor", "__proto__", "toString"])("the inherited name %s is not a capability", (name) => {
    const before = readCapabilities(`{"capabilities":{"${name}":{}}}`);
    expect([findMissing(offer(before), offer({})), findMissing(offer(before), offer(before))]).toEqual([name, undefined]);
  });

  it("capabilities may be nested deeper than any stack", () => {
    const text = `{"capabilities":{"experimental":${'{"x":'.repeat(100_000)}true${"}".repeat(100_000)}}}`;
    expect(findMissing(offer(readCapabilities(text)), offer(readCapabilities(text)))).toBeUndefined();
  });

  it("added capabilities never make one missing, and a removed one always is", () => {
    const value = fc.oneof(fc.constant(true), fc.constant({}), fc.constant({ listChanged: true }), fc.constant(false), fc.constant(1));
    fc.assert(
      fc.property(fc.dictionary(fc.string(), value), fc.dictionary(fc.string(), value), (before, more) => {
        expect(findMissing(offer(before), offer({ ...more, ...before }))).toBeUndefined();
        for (const [name, offered] of Object.entries(before)) {
          const { [name]: _, ...rest } = before;
          expect(findMissing(offer(before), offer(rest))).toBe(offered === false ? undefined : name);
        }
      }),
    );
  });
});

describe("the lists that may change", () => {
  it("the lists that may change are those with listChanged true", () => {
    expect(changingLists({ tools: { listChanged: true }, prompts: { listChanged: "true" }, resources: { subscribe: true } })).toEqual([
      "tools",
    ]);
    expect(changingLists({ tasks: { listChanged: true }, prompts: { listChanged: true }, resources: { listChanged: true } })).toEqual([
      "prompts",
      "resources",
    ]);
    expect(changingLists({ tools: true, prompts: null })).toEqual([]);
  });
});
