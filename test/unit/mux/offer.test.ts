import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { JsonObject } from "../../../src/jsonrpc/message.ts";
import { changingLists, findMissing, type Offer, readCapabilities } from "../../../src/mux/offer.ts";

function offer(capabilities: JsonObject, protocolVersion?: string): Offer {
  return { capabilities, protocolVersion };
}

const FULL: JsonObject = {
  tools: { listChanged: true },
  resources: { subscribe: true, listChanged: false },
  logging: {},
  tasks: { requests: { tools: { call: {} } } },
  experimental: { "x.y": { version: "1", formats: ["a", "b"] } },
};

describe("a server that was started anew", () => {
  it.each<[string, JsonObject]>([
    ["the same", FULL],
    ["more", { ...FULL, prompts: { listChanged: true }, logging: { more: true }, resources: { subscribe: true, listChanged: true } }],
    ["another value of what says how", { ...FULL, experimental: { "x.y": { version: 2, formats: [] } } }],
    ["without what it had declined", { ...FULL, resources: { subscribe: true } }],
  ])("offers all that was offered where it offers %s", (_, now) => {
    expect(findMissing(offer(FULL), offer(now))).toBeUndefined();
  });

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
  ])("misses %s where it offers %j", (missing, now) => {
    expect(findMissing(offer(FULL), offer(now))).toBe(missing);
  });

  it("has to speak the same revision, where that is not the sidecar's business", () => {
    expect(findMissing(offer({}, "2025-11-25"), offer({}, "2025-11-25"))).toBeUndefined();
    expect(findMissing(offer({}, "2025-11-25"), offer({}, "2025-06-18"))).toBe("protocol revision 2025-11-25 (now 2025-06-18)");
  });

  it.each(["constructor", "__proto__", "toString"])("is not taken to offer %s because objects have that", (name) => {
    const before = readCapabilities(`{"capabilities":{"${name}":{}}}`);
    expect([findMissing(offer(before), offer({})), findMissing(offer(before), offer(before))]).toEqual([name, undefined]);
  });

  it("may have nested what it offers deeper than any stack is", () => {
    const text = `{"capabilities":{"experimental":${'{"x":'.repeat(100_000)}true${"}".repeat(100_000)}}}`;
    expect(findMissing(offer(readCapabilities(text)), offer(readCapabilities(text)))).toBeUndefined();
  });

  it("misses nothing of anything that it offers still, whatever comes to it, and always what was taken away", () => {
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
  it("are those of which the server says that it tells", () => {
    expect(
      changingLists(offer({ tools: { listChanged: true }, prompts: { listChanged: "true" }, resources: { subscribe: true } })),
    ).toEqual(["tools"]);
    expect(
      changingLists(offer({ tasks: { listChanged: true }, prompts: { listChanged: true }, resources: { listChanged: true } })),
    ).toEqual(["prompts", "resources"]);
    expect(changingLists(offer({ tools: true, prompts: null }))).toEqual([]);
  });
});

describe("capabilities", () => {
  it.each(["{}", '{"capabilities":null}', '{"capabilities":[1]}', "[]"])("are none in %s", (text) => {
    expect(readCapabilities(text)).toEqual({});
  });
});
