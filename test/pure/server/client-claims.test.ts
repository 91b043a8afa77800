import { expect, it } from "vitest";
import { initializeOf } from "../../../src/mcp/translate.ts";
import { claimsOf } from "../../../src/server/session-opener.ts";
import { readMessage, type RequestMessage } from "../../../src/mcp/message.ts";
import type { SessionClaims } from "../../../src/session/ids.ts";

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
