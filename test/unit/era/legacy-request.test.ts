import { describe, expect, it } from "vitest";
import { requestToLegacyServer } from "../../../src/era/legacy-server/legacy-request.ts";
import { readMessage, type RequestMessage } from "../../../src/protocol/message.ts";
import { requestToServer } from "../../../src/protocol/rewrite.ts";

/** The server gets its own token. It is the same here, so that all other changes show. */
const PROGRESS_TOKEN = 7;

function sent(params: string): string {
  const request = readMessage(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":${params}}`) as RequestMessage;
  const text = requestToServer(requestToLegacyServer(request), PROGRESS_TOKEN);
  return text.slice(text.indexOf('"params":') + '"params":'.length, -1);
}

describe("a request for a server with sessions", () => {
  it.each([
    ['{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}', '{"_meta":{}}'],
    ['{ "_meta" : {"progressToken":7, "io.modelcontextprotocol/clientInfo":{"a":[1]}} }', '{ "_meta" : {"progressToken":7} }'],
    [
      '{"_meta":{"io.modelcontextprotocol/x":1,"traceparent":"00-1","example.com/y":1.0}}',
      '{"_meta":{"traceparent":"00-1","example.com/y":1.0}}',
    ],
    [String.raw`{"_meta":{"io.modelcontextprotocol\/x":1,"\u0061":2}}`, '{"_meta":{"a":2}}'],
    [
      '{"_meta":{},"name":"t","requestState":"s","arguments":{"requestState":1},"inputResponses":{}}',
      '{"_meta":{},"name":"t","arguments":{"requestState":1}}',
    ],
    ['{"requestState":"s","_meta":{}}', '{"_meta":{}}'],
  ])("the params %s become %s", (params, expected) => {
    expect(sent(params)).toBe(expected);
  });
});
