import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { readMessage, type RequestMessage } from "../../../src/protocol/message.ts";
import { answerInitialize } from "../../../src/lane/handshake/initialize.ts";
import type { UpstreamHandshake } from "../../../src/upstream/port.ts";
import { idText, inAnyOrder, keyText, memberText, objectText, otherMembers, stringText } from "../../support/json-text.ts";
import { legacyHandshake } from "../../server/support/handshake.ts";

function initialize(protocolVersion: unknown): RequestMessage {
  const params = { protocolVersion, capabilities: {} };
  return readMessage(JSON.stringify({ jsonrpc: "2.0", id: 1, method: "initialize", params })) as RequestMessage;
}

function handshake(resultText: string): UpstreamHandshake {
  return legacyHandshake(resultText, "2024-11-05");
}

const RESULT =
  '{"serverInfo":{"name":"s","protocolVersion":"x"},"protocolVersion":"2024-11-05","capabilities":{"tools":{}},"big":9007199254740993}';

describe("the answer to initialize", () => {
  it("the answer is the server's own result with the revision that the client asked for", () => {
    const { protocolVersion, body } = answerInitialize(handshake(RESULT), initialize("2025-06-18"), "1");
    expect(protocolVersion).toBe("2025-06-18");
    expect(body).toBe(`{"jsonrpc":"2.0","id":1,"result":${RESULT.replace("2024-11-05", "2025-06-18")}}`);
  });

  it.each(["2026-07-28", 1, undefined])("the answer to a client that asks for %j has the newest legacy revision", (requested) => {
    const { protocolVersion, body } = answerInitialize(handshake(RESULT), initialize(requested), '"a"');
    expect(protocolVersion).toBe("2025-11-25");
    expect(JSON.parse(body)).toMatchObject({ id: "a", result: { protocolVersion: "2025-11-25", serverInfo: { protocolVersion: "x" } } });
  });

  it("a client without params gets an answer", () => {
    const request = readMessage('{"jsonrpc":"2.0","id":1,"method":"initialize"}') as RequestMessage;
    expect(answerInitialize(handshake(RESULT), request, "1").protocolVersion).toBe("2025-11-25");
  });

  it("tasks/list is removed from the capabilities, and the rest is unchanged", () => {
    const offered = (tasks: string): string =>
      `{"capabilities":{"a":1.0,"tasks": ${tasks},"experimental":{"tasks":{"list":{}}}},"tasks":{"list":1},"protocolVersion":"2025-11-25"}`;
    const tasks = { list: {}, cancel: {}, requests: { tools: { call: {} } } };
    const { body } = answerInitialize(handshake(offered(JSON.stringify(tasks))), initialize("2025-11-25"), "1");
    expect(body).toBe(`{"jsonrpc":"2.0","id":1,"result":${offered(JSON.stringify({ ...tasks, list: undefined }))}}`);
  });

  it.each(['{ "cancel" : {} }', "{}", "null", '["list"]', '"list"'])("capabilities with the tasks %s stay as they are", (tasks) => {
    const resultText = `{"protocolVersion":"2025-11-25","capabilities":{"tasks":${tasks}}}`;
    const { body } = answerInitialize(handshake(resultText), initialize("2025-11-25"), "1");
    expect(body).toBe(`{"jsonrpc":"2.0","id":1,"result":${resultText}}`);
  });

  it.each(['{"capabilities":7}', '{"capabilities":null}', "{}"])("a result without tasks is unchanged: %s", (resultText) => {
    expect(answerInitialize(handshake(resultText), initialize("2025-11-25"), "1").body).toBe(
      `{"jsonrpc":"2.0","id":1,"result":${resultText}}`,
    );
  });

  it("only the revision of any result changes, and any id keeps its spelling", () => {
    const revision = "\u0001";
    const result = objectText(inAnyOrder(otherMembers("protocolVersion"), memberText(keyText("protocolVersion"), fc.constant(revision))));
    fc.assert(
      fc.property(result, stringText, idText, (template, serverRevision, id) => {
        const resultText = template.replace(revision, () => serverRevision);
        const { body } = answerInitialize(handshake(resultText), initialize("2025-03-26"), id);
        expect(body).toBe(`{"jsonrpc":"2.0","id":${id},"result":${template.replace(revision, '"2025-03-26"')}}`);
      }),
    );
  });
});
