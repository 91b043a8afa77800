import { describe, expect, it } from "vitest";
import { isModernMessage } from "../../../src/era/checks/message-era.ts";
import { type Message, readMessage } from "../../../src/protocol/message.ts";

function request(version?: unknown): Message {
  const meta = version === undefined ? {} : { "io.modelcontextprotocol/protocolVersion": version };
  return readMessage(JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/list", params: { _meta: meta } })) as Message;
}

describe("the era of a message", () => {
  it.each([
    { header: undefined, body: undefined, isModern: false },
    { header: "2025-11-25", body: undefined, isModern: false },
    { header: "2026-07-28", body: undefined, isModern: true },
    { header: "2031-01-01", body: undefined, isModern: true },
    { header: "v999.0.0", body: undefined, isModern: false },
    { header: undefined, body: "2026-07-28", isModern: true },
    { header: "2025-11-25", body: "2026-07-28", isModern: true },
    { header: "2026-07-28", body: "2025-11-25", isModern: true },
    { header: "2025-06-18", body: "2025-11-25", isModern: true },
    { header: "2025-11-25", body: "2025-11-25", isModern: false },
    { header: "v999.0.0", body: "v999.0.0", isModern: true },
    { header: "2025-11-25", body: 7, isModern: true },
  ])("header $header and body $body: without a session is $isModern", ({ header, body, isModern }) => {
    expect(isModernMessage(request(body), header)).toBe(isModern);
  });

  it("other reserved keys show nothing", () => {
    const text = '{"jsonrpc":"2.0","id":1,"method":"x","params":{"_meta":{"io.modelcontextprotocol/clientInfo":{}}}}';
    expect(isModernMessage(readMessage(text) as Message, undefined)).toBe(false);
  });

  it("a key with escapes is the same key", () => {
    const text = String.raw`{"jsonrpc":"2.0","id":1,"method":"x","params":{"_meta":{"io.modelcontextprotocol\/protocolVersion":"2026-07-28"}}}`;
    expect(isModernMessage(readMessage(text) as Message, undefined)).toBe(true);
  });
});
