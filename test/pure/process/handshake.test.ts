import { expect, it, vi } from "vitest";
import { type Message, type Outgoing, readMessage } from "../../../src/mcp/message.ts";
import { discoverAttempt, Handshake, initializeAttempt, readHandshake } from "../../../src/process/handshake.ts";
import { contextOf } from "../../support/context.ts";
import { useFakeClock } from "../../support/fake-clock.ts";

useFakeClock();

const CLIENT_INFO = { name: "test", version: "1" };

function ending(members: string): Parameters<typeof readHandshake>[0] {
  return readMessage(`{"jsonrpc":"2.0","id":0,${members}}`) as Parameters<typeof readHandshake>[0];
}

it.each([
  '{"jsonrpc":"2.0","id":0,"method":"ping"}',
  '{"jsonrpc":"2.0","id":1,"method":"initialize"}',
  '{"jsonrpc":"2.0","id":"0","result":{}}',
  '{"jsonrpc":"2.0","id":1,"result":{}}',
  '{"jsonrpc":"2.0","method":"notifications/message"}',
])("the message %s does not end it", async (text) => {
  const sent: Outgoing[] = [];
  const script = { first: initializeAttempt(CLIENT_INFO), initialized: undefined };
  const handshake = new Handshake(contextOf(), script, 1, 1000, { send: (line) => sent.push(line) }, () => undefined);
  expect([sent.length, handshake.take(readMessage(text) as Message), handshake.state]).toEqual([1, false, "open"]);
  handshake.end(new Error("ended"));
  await expect(handshake.result).rejects.toThrow("ended");
});

it.each([
  ['"method":"initialize"', "the command echoes its input: it is not an MCP server"],
  ['"error":{"code":1,"message":"no"}', 'answered initialize with an error: {"code":1,"message":"no"}'],
  [`"error":{"code":1,"message":"${"x".repeat(5000)}"}`, `${"x".repeat(500 - '{"code":1,"message":"'.length)}…`],
  ['"result":{}', "the MCP server answered initialize without a protocolVersion"],
  ['"result":{"protocolVersion":20251125}', "the MCP server answered initialize without a protocolVersion"],
  ['"result":[]', "the MCP server answered initialize without a result object"],
  ['"result":null', "the MCP server answered initialize without a result object"],
])("%.60s is reported as the reason", (members, reason) => {
  expect(() => readHandshake(ending(members), 1, initializeAttempt(CLIENT_INFO))).toThrow(reason);
});

it.each(['["2031-01-01"]', "[]", "{}", "null"])("a discovery with the revisions %s is reported", (versions) => {
  const discovered = ending(`"result":{"resultType":"complete","supportedVersions":${versions},"capabilities":{}}`);
  expect(() => readHandshake(discovered, 1, discoverAttempt(CLIENT_INFO))).toThrow("without a supported revision");
});

it("a defect after an error without an id stays within the handshake", async () => {
  const context = contextOf();
  const script = { first: initializeAttempt(CLIENT_INFO), initialized: undefined };
  const handshake = new Handshake(context, script, 1, 10_000, { send: () => undefined }, () => {
    throw new Error("a defect");
  });
  expect(handshake.take(readMessage('{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"no"}}') as Message)).toBe(true);
  vi.advanceTimersByTime(1001);
  await expect(handshake.result).rejects.toThrow("answered initialize with an error");
  expect(context.counters.defects).toBe(1);
});
