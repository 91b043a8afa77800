import { describe, expect, it } from "vitest";
import { readClientMessage } from "../../../src/protocol/client-message.ts";

/** Returns the reason why a request with these params is rejected; undefined if it is not. */
function refusal(params: string): string | undefined {
  const message = readClientMessage(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":${params}}`);
  return "code" in message ? `${message.code} ${message.idText}: ${message.reason}` : undefined;
}

describe("an id that is rewritten on its way to the server", () => {
  it.each([
    ['{"_meta":{"progressToken":1},"_meta":{"progressToken":2}}', '"_meta" occurs twice'],
    ['{"_meta":{"progressToken":1,"progressToken":2}}', '"progressToken" occurs twice'],
    ['{"_meta":{"progressToken":1,"\\u0070rogressToken":2}}', '"progressToken" occurs twice'],
    ['{"requestId":1,"requestId":2}', '"requestId" occurs twice'],
    ['{"requestId":1,"RequestID":2}', '"RequestID" differs only in case from a name of the protocol'],
    ['{"_Meta":{"progressToken":1}}', '"_Meta" differs only in case from a name of the protocol'],
    ['{"_meta":{"progressToken":1,"PROGRESSTOKEN":2}}', '"PROGRESSTOKEN" differs only in case from a name of the protocol'],
    ['{"_meta":{"progreſſToken":2}}', '"progreſſToken" differs only in case from a name of the protocol'],
  ])("ambiguous params are rejected: %s", (params, reason) => {
    expect(refusal(params)).toBe(`INVALID_REQUEST 1: ${reason}`);
  });

  it.each([
    '{"_meta":{"progressToken":1}}',
    '{"_meta":{},"requestId":7}',
    '{"_meta":{"x":{"progressToken":1},"y":{"progressToken":2}}}',
    '{"name":"a","arguments":{"requestId":1,"RequestId":2,"_meta":{},"_Meta":{}}}',
    "{}",
  ])("params that are ambiguous elsewhere only are accepted: %s", (params) => {
    expect(refusal(params)).toBeUndefined();
  });
});
