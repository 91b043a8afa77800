import { InitializeRequestSchema, JSONRPCNotificationSchema, LATEST_PROTOCOL_VERSION } from "@modelcontextprotocol/sdk/types.js";
import { describe, expect, it } from "vitest";
import { type Message, readMessage, type ResponseMessage } from "../../../src/protocol/message.ts";
import { AnyEraHandshake } from "../../../src/upstream/handshake/any-era-handshake.ts";
import { ClientHandshake } from "../../../src/upstream/handshake/client-handshake.ts";
import {
  DiscoverHandshake,
  HandshakeError,
  isHandshakeResponse,
  readHandshake,
  SidecarHandshake,
} from "../../../src/upstream/handshake/handshake.ts";

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
    const text = HANDSHAKE.begin();
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
    const text = HANDSHAKE.initializedNotification() ?? "";
    expect(parse(text)).toMatchObject({ kind: "notification", method: "notifications/initialized" });
    expect(JSONRPCNotificationSchema.safeParse(JSON.parse(text)).success).toBe(true);
  });

  it("a client's own messages begin every generation of its private server", () => {
    const initialize = parse('{"jsonrpc":"2.0","id":"a","method":"initialize","params":{"capabilities":{"roots":{}}}}');
    if (initialize.kind !== "request") throw new Error(`a ${initialize.kind}`);
    const handshake = new ClientHandshake(initialize);
    expect(handshake.begin()).toBe('{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"capabilities":{"roots":{}}}}');
    expect(handshake.initializedNotification()).toBeUndefined();
    handshake.keepInitialized('{"jsonrpc":"2.0","method":"notifications/initialized","params":{}}');
    expect(handshake.initializedNotification()).toBe('{"jsonrpc":"2.0","method":"notifications/initialized","params":{}}');
  });

  it("the response is recognized by its id, and other messages are not taken for it", () => {
    expect(isHandshakeResponse(parse('{"jsonrpc":"2.0","id":0,"result":{}}'))).toBe(true);
    expect(isHandshakeResponse(parse('{"jsonrpc":"2.0","id":0,"error":{"code":1,"message":"no"}}'))).toBe(true);
    for (const text of [
      '{"jsonrpc":"2.0","id":0,"method":"ping"}',
      '{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"no"}}',
      '{"jsonrpc":"2.0","id":1,"method":"initialize"}',
      '{"jsonrpc":"2.0","id":"0","result":{}}',
      '{"jsonrpc":"2.0","id":1,"result":{}}',
      '{"jsonrpc":"2.0","id":null,"result":{}}',
      '{"jsonrpc":"2.0","method":"notifications/message"}',
    ])
      expect(isHandshakeResponse(parse(text))).toBe(false);
  });
});

describe("the response to the handshake", () => {
  it("the result is kept byte for byte", () => {
    const result = '{ "capabilities" : {"x":1.0}, "protocolVersion":"2025-\\u00306-18", "big":9007199254740993 }';
    const text = `{"id":0, "result": ${result} ,"jsonrpc":"2.0"}`;
    expect(readHandshake(response(text), 4)).toMatchObject({
      generation: 4,
      era: "legacy",
      resultText: result,
      protocolVersion: "2025-06-18",
    });
  });

  it("a program that echoes the request is named as such", () => {
    const text = HANDSHAKE.begin();
    const echo = parse(text);
    if (!isHandshakeResponse(echo)) throw new Error("not taken for the end of the handshake");
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

  it.each(["{}", '{"protocolVersion":20251125}'])("the result %s is rejected", (result) => {
    const text = `{"jsonrpc":"2.0","id":0,"result":${result}}`;
    expect(() => readHandshake(response(text), 1)).toThrow("the MCP server answered initialize without a protocolVersion");
  });

  it.each(["null", "[]", '"2025-11-25"'])("the result %s is rejected, because it is not an object", (result) => {
    const text = `{"jsonrpc":"2.0","id":0,"result":${result}}`;
    expect(() => readHandshake(response(text), 1)).toThrow("the MCP server answered initialize without a result object");
  });
});

const CLIENT = { name: "test", version: "1" };
const REFUSAL = response('{"jsonrpc":"2.0","id":0,"error":{"code":-32022,"message":"no sessions"}}');

function discovered(versions: string): ResponseMessage {
  return response(`{"jsonrpc":"2.0","id":0,"result":{"resultType":"complete","supportedVersions":${versions},"capabilities":{}}}`);
}

describe("a handshake with a server of any era", () => {
  it("a server that refuses initialize is asked for its revisions by the same process", () => {
    const handshake = new AnyEraHandshake(CLIENT);
    expect(JSON.parse(handshake.begin())).toMatchObject({ method: "initialize" });
    const next = handshake.read(REFUSAL, 1);
    expect(JSON.parse(next as string)).toMatchObject({ id: 0, method: "server/discover" });
    expect(handshake.read(discovered('["2026-07-28"]'), 1)).toMatchObject({ era: "modern", protocolVersion: "2026-07-28" });
    expect(handshake.initializedNotification()).toBeUndefined();
  });

  it("a server without sessions gets the discovery first after a restart", () => {
    const handshake = new AnyEraHandshake(CLIENT);
    handshake.read(REFUSAL, 1);
    handshake.read(discovered('["2026-07-28"]'), 1);
    expect(JSON.parse(handshake.begin())).toMatchObject({ method: "server/discover" });
  });

  it("a server that is not ready after that gets initialize first", () => {
    const handshake = new AnyEraHandshake(CLIENT);
    handshake.read(REFUSAL, 1);
    handshake.read(discovered('["2026-07-28"]'), 1);
    expect(JSON.parse(handshake.begin())).toMatchObject({ method: "server/discover" });
    // The process exits here, or is silent.
    expect(JSON.parse(handshake.begin())).toMatchObject({ method: "initialize" });
  });

  it("a server that refuses both is reported with its answer to initialize", () => {
    const handshake = new AnyEraHandshake(CLIENT);
    handshake.read(REFUSAL, 1);
    expect(() => handshake.read(response('{"jsonrpc":"2.0","id":0,"error":{"code":1,"message":"what?"}}'), 1)).toThrow("no sessions");
    expect(JSON.parse(handshake.begin())).toMatchObject({ method: "initialize" });
  });

  it("a server that answers any other request with a result is reported with its answer to initialize", () => {
    const handshake = new AnyEraHandshake(CLIENT);
    handshake.read(REFUSAL, 1);
    expect(() => handshake.read(response('{"jsonrpc":"2.0","id":0,"result":{"echo":{}}}'), 1)).toThrow("no sessions");
  });

  it("a server of unknown revisions only is rejected", () => {
    const handshake = new DiscoverHandshake(CLIENT);
    for (const versions of ['["2031-01-01"]', "[]", "{}", "null"]) {
      expect(() => handshake.read(discovered(versions), 1)).toThrow("without a supported revision");
    }
  });
});
