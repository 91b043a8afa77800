import { InitializeRequestSchema, JSONRPCNotificationSchema, LATEST_PROTOCOL_VERSION } from "@modelcontextprotocol/sdk/types.js";
import { describe, expect, it } from "vitest";
import { type Message, readMessage, type ResponseMessage } from "../../../src/protocol/message.ts";
import { ClientHandshake, HandshakeError, isInitializeResponse, readHandshake, SidecarHandshake } from "../../../src/upstream/handshake.ts";

const HANDSHAKE = new SidecarHandshake({ name: "claw-mcp-stdio", version: "1.2.3" });

function parse(text: string): Message {
  const message = readMessage(text);
  if (message.kind === "invalid") throw new Error(message.reason);
  return message;
}

function response(text: string): ResponseMessage {
  const message = parse(text);
  if (message.kind !== "response") throw new Error(`a ${message.kind}`);
  return message;
}

describe("the handshake", () => {
  it("the request has the newest legacy revision, no capabilities and the sidecar's name", () => {
    const text = HANDSHAKE.request;
    expect(parse(text).kind).toBe("request");
    expect(JSON.parse(text)).toEqual({
      jsonrpc: "2.0",
      id: 0,
      method: "initialize",
      params: {
        protocolVersion: LATEST_PROTOCOL_VERSION,
        capabilities: {},
        clientInfo: { name: "claw-mcp-stdio", version: "1.2.3" },
      },
    });
    expect(InitializeRequestSchema.safeParse(JSON.parse(text)).success).toBe(true);
  });

  it("notifications/initialized is one line of the protocol", () => {
    const text = HANDSHAKE.initializedNotification();
    expect(parse(text)).toMatchObject({ kind: "notification", method: "notifications/initialized" });
    expect(JSONRPCNotificationSchema.safeParse(JSON.parse(text)).success).toBe(true);
  });

  it("a client's own messages begin every generation of its private server", () => {
    const initialize = parse('{"jsonrpc":"2.0","id":"a","method":"initialize","params":{"capabilities":{"roots":{}}}}');
    if (initialize.kind !== "request") throw new Error(`a ${initialize.kind}`);
    const handshake = new ClientHandshake(initialize);
    expect(handshake.request).toBe('{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"capabilities":{"roots":{}}}}');
    expect(handshake.initializedNotification()).toBeUndefined();
    handshake.keepInitialized('{"jsonrpc":"2.0","method":"notifications/initialized","params":{}}');
    expect(handshake.initializedNotification()).toBe('{"jsonrpc":"2.0","method":"notifications/initialized","params":{}}');
  });

  it("the response is recognized by its id, and other messages are not taken for it", () => {
    expect(isInitializeResponse(parse('{"jsonrpc":"2.0","id":0,"result":{}}'))).toBe(true);
    expect(isInitializeResponse(parse('{"jsonrpc":"2.0","id":0,"error":{"code":1,"message":"no"}}'))).toBe(true);
    for (const text of [
      '{"jsonrpc":"2.0","id":0,"method":"ping"}',
      '{"jsonrpc":"2.0","id":1,"method":"initialize"}',
      '{"jsonrpc":"2.0","id":"0","result":{}}',
      '{"jsonrpc":"2.0","id":1,"result":{}}',
      '{"jsonrpc":"2.0","id":null,"error":{}}',
      '{"jsonrpc":"2.0","method":"notifications/message"}',
    ])
      expect(isInitializeResponse(parse(text))).toBe(false);
  });
});

describe("the response to the handshake", () => {
  it("the result is kept byte for byte", () => {
    const result = '{ "capabilities" : {"x":1.0}, "protocolVersion":"2025-\\u00306-18", "big":9007199254740993 }';
    const text = `{"id":0, "result": ${result} ,"jsonrpc":"2.0"}`;
    expect(readHandshake(response(text), 4)).toEqual({ generation: 4, resultText: result, protocolVersion: "2025-06-18" });
  });

  it("a program that echoes the request is named as such", () => {
    const text = HANDSHAKE.request;
    const echo = parse(text);
    if (!isInitializeResponse(echo)) throw new Error("not taken for the end of the handshake");
    expect(() => readHandshake(echo, 1)).toThrow(
      new HandshakeError("handshake-refused", "the command echoes its input: it is not an MCP server"),
    );
  });

  it("a rejection is reported with the server's error", () => {
    const text = '{"jsonrpc":"2.0","id":0,"error":{"code":-32602,"message":"no key"}}';
    expect(() => readHandshake(response(text), 1)).toThrow(
      'the MCP server answered initialize with an error: {"code":-32602,"message":"no key"}',
    );
  });

  it("a rejection is reported with at most 500 characters", () => {
    const error = JSON.stringify({ code: 1, message: "x".repeat(5000) });
    const text = `{"jsonrpc":"2.0","id":0,"error":${error}}`;
    expect(() => readHandshake(response(text), 1)).toThrow(
      new HandshakeError("handshake-refused", `the MCP server answered initialize with an error: ${error.slice(0, 500)}…`),
    );
  });

  it.each(["null", "[]", '"2025-11-25"', "{}", '{"protocolVersion":20251125}'])("the result %s is rejected", (result) => {
    const text = `{"jsonrpc":"2.0","id":0,"result":${result}}`;
    expect(() => readHandshake(response(text), 1)).toThrow("the MCP server answered initialize without a protocolVersion");
  });
});
