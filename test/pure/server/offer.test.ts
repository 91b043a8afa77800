import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { changingLists, findMissing, readCapabilities } from "../../../src/mcp/capabilities.ts";
import { type JsonObject, readMessage, type RequestMessage } from "../../../src/mcp/message.ts";
import { initializeOf } from "../../../src/mcp/translate.ts";
import { claimsOf } from "../../../src/server/session-opener.ts";
import type { SessionClaims } from "../../../src/session/ids.ts";

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
    expect(findMissing(FULL, now)).toBe(missing);
  });

  it.each(["constructor", "__proto__", "toString"])("the inherited name %s is not a capability", (name) => {
    const before = readCapabilities(`{"capabilities":{"${name}":{}}}`);
    expect([findMissing(before, {}), findMissing(before, before)]).toEqual([name, undefined]);
  });

  it("capabilities may be nested deeper than any stack", () => {
    const text = `{"capabilities":{"experimental":${'{"x":'.repeat(100_000)}true${"}".repeat(100_000)}}}`;
    expect(findMissing(readCapabilities(text), readCapabilities(text))).toBeUndefined();
  });

  it("added capabilities never make one missing, and a removed one always is", () => {
    const value = fc.oneof(fc.constant(true), fc.constant({}), fc.constant({ listChanged: true }), fc.constant(false), fc.constant(1));
    fc.assert(
      fc.property(fc.dictionary(fc.string(), value), fc.dictionary(fc.string(), value), (before, more) => {
        expect(findMissing(before, { ...more, ...before })).toBeUndefined();
        for (const [name, offered] of Object.entries(before)) {
          const { [name]: _, ...rest } = before;
          expect(findMissing(before, rest)).toBe(offered === false ? undefined : name);
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

function initialize(params: string): RequestMessage {
  return readMessage(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":${params}}`) as RequestMessage;
}

/** Returns the params that a server at another replica gets. */
function travelled(params: string): string | undefined {
  const text = initializeOf(claimsOf(initialize(params), "2025-06-18", true))?.text;
  return text?.slice('{"jsonrpc":"2.0","id":0,"method":"initialize","params":'.length, -1);
}

it("capabilities and client info are those of the client, byte for byte", () => {
  const rest = String.raw`"capabilities":{ "sampling":{"\u0078":1.0},"x":9007199254740993},"clientInfo":{"version":"1","name":"caf\u00e9"}`;
  expect(travelled(`{"protocolVersion":"1.0",${rest},"_meta":{}}`)).toBe(`{"protocolVersion":"2025-06-18",${rest}}`);
});

it("a long client info is shortened to the name and the version", () => {
  const info = `"name":"n","title":"${"t".repeat(200)}","version":"2"`;
  expect(travelled(`{"capabilities":{},"clientInfo":{${info}}}`)).toBe(
    '{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"n","version":"2"}}',
  );
});

it.each(["{}", '{"capabilities":{}}', '{"clientInfo":7}', '{"clientInfo":{"icons":[]}}'])(
  "a client without them, as in %s, has defaults",
  (params) => {
    expect(JSON.parse(travelled(params) ?? "")).toMatchObject({ capabilities: {}, clientInfo: expect.any(Object) as object });
  },
);

it.each([
  ["capabilitiesText", "{"],
  ["capabilitiesText", "}"],
  ["capabilitiesText", "{}{}"],
  ["capabilitiesText", '{}},"x":{"y":1'],
  ["capabilitiesText", '{},"protocolVersion":"x"'],
  ["capabilitiesText", "[".repeat(300)],
  ["capabilitiesText", "[]"],
  ["capabilitiesText", "null"],
  ["capabilitiesText", "\0"],
  ["capabilitiesText", '{}}}\n{"jsonrpc":"2.0"}'],
  ["clientInfoText", '{}},"method":"tools/call","x":{"y":1'],
  ["clientInfoText", '"'],
  ["clientInfoText", " {}"],
] as const)("claims with the %s %j, which a client has signed itself, are not valid", (member, text) => {
  const claims: SessionClaims = { protocolVersion: "2025-11-25", issuedAtS: 0, capabilitiesText: "{}", clientInfoText: "{}" };
  expect(initializeOf(claims)).toBeDefined();
  expect(initializeOf({ ...claims, [member]: text })).toBeUndefined();
});

it("capabilities travel for a client that can be asked, on any lane, or that has a private server", () => {
  const needs = (params: string, isPrivate: boolean): boolean => claimsOf(initialize(params), "2025-11-25", isPrivate).needsCapabilities;
  const [asking, plain] = ['{"capabilities":{"roots":{}}}', '{"capabilities":{"experimental":{}}}'];
  expect([needs(asking, true), needs(asking, false), needs(plain, true), needs(plain, false)]).toEqual([true, true, true, false]);
});
