import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { checkClientBatch, type ClientMessageProblem, readClientMessage } from "../../../src/protocol/client-message.ts";
import { type Message, readText } from "../../../src/protocol/message.ts";
import {
  idText,
  inAnyOrder,
  keyText,
  memberText,
  objectText,
  otherMembers,
  together,
  valueText,
  whitespace,
} from "../../support/json-text.ts";
import { collectGarbage } from "../../unit/support/garbage.ts";

/** Returns the messages of a batch, or the reason for its rejection; undefined for text that is not a batch. */
function check(text: string): Message[] | ClientMessageProblem | undefined {
  const reading = readText(text);
  return reading.kind === "batch" ? checkClientBatch(reading) : undefined;
}

function read(text: string): Message[] {
  const messages = check(text);
  if (!Array.isArray(messages)) throw new Error(messages?.reason ?? "no batch");
  return messages;
}

describe("a message of a batch", () => {
  it("a message does not keep the others in memory", () => {
    collectGarbage();
    const before = process.memoryUsage().heapUsed;
    const kept = Array.from({ length: 50 }, (_, index) => {
      const ping = `{"jsonrpc":"2.0","id":"a ping of batch ${index}","method":"ping"}`;
      return read(`[${ping},{"jsonrpc":"2.0","id":2,"method":"ping","params":{"x":"${"x".repeat(500_000)}${index}"}}]`)[0];
    });
    collectGarbage();
    expect(process.memoryUsage().heapUsed - before).toBeLessThan(5_000_000);
    expect(kept).toHaveLength(50);
  });
});

function invalid(reason: string): object {
  return { code: "INVALID_REQUEST", reason, idText: undefined };
}

const PING = '{"jsonrpc":"2.0","id":1,"method":"ping"}';

/** A message of any kind, in any spelling. */
const messageText = fc
  .tuple(
    fc.constantFrom("request", "notification", "response"),
    idText,
    objectText(otherMembers("jsonrpc", "id", "method", "params", "result", "error")),
  )
  .chain(([kind, id, params]) => {
    const members = together(
      ...(kind === "notification" ? [] : [memberText(keyText("id"), fc.constant(id))]),
      ...(kind === "response"
        ? [memberText(keyText("result"), valueText)]
        : [memberText(keyText("method"), keyText("x")), memberText(keyText("params"), fc.constant(params))]),
    );
    return objectText(inAnyOrder(members, memberText(keyText("jsonrpc"), keyText("2.0"))));
  })
  // One rejected message makes the whole batch rejected.
  .filter((text) => !("code" in readClientMessage(text)));

describe("a batch", () => {
  it("a batch is JSON text that begins with a bracket", () => {
    for (const text of ["[]", " \t\r\n[ ]", `[${PING}]`]) expect(readText(text).kind).toBe("batch");
    for (const text of ["", " ", PING, '"[]"', "\u{FEFF}[]", "{[", "x[]"]) expect(readText(text).kind).not.toBe("batch");
  });

  it("each message of a batch is read as it would be alone, byte for byte", () => {
    const spaced = fc.tuple(whitespace, messageText, whitespace);
    fc.assert(
      fc.property(fc.array(spaced, { minLength: 1, maxLength: 5 }), whitespace, (items, around) => {
        const text = `${around}[${items.map((item) => item.join("")).join(",")}]${around}`;
        expect(read(text)).toEqual(items.map(([, message]) => readClientMessage(message)));
      }),
    );
  });

  it("a batch may mix kinds of messages and repeat ids", () => {
    const texts = [PING, PING, '{"jsonrpc":"2.0","method":"notifications/x"}', '{"jsonrpc":"2.0","id":7,"result":{}}'];
    expect(read(`[${texts.join(",")}]`).map(({ text, kind }) => [text, kind])).toEqual(
      texts.map((text, index) => [text, ["request", "request", "notification", "response"][index]]),
    );
  });

  it("a batch may have as many messages as the official SDK accepts", () => {
    const pings = (count: number): string => `[${Array.from({ length: count }, () => PING).join(",")}]`;
    expect(read(pings(100))).toHaveLength(100);
    for (const count of [101, 1500]) expect(check(pings(count))).toEqual(invalid(`the batch has ${count} messages; 100 are allowed`));
  });

  it.each(["[", `[${PING}`, `[${PING},]`, `[${PING}] x`, "[undefined]"])("the malformed batch %s is rejected", (text) => {
    expect(check(text)).toBeUndefined();
    expect(readClientMessage(text)).toEqual({ code: "PARSE_ERROR", reason: "the body is not JSON", idText: undefined });
  });

  it.each([
    ["[]", "the batch is empty"],
    [" [ ] ", "the batch is empty"],
    [`[${PING},1]`, "message 2 of the batch: the message must be a JSON object"],
    [`[${PING},{"id":2,"method":"ping"}]`, 'message 2 of the batch: "jsonrpc" must be "2.0"'],
    [`[{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"},${PING}]`, 'message 1 of the batch: "id" occurs twice'],
    [
      `[${PING},{"jsonrpc":"2.0","id":1,"method":"ping","Method":"tools/call"}]`,
      'message 2 of the batch: "Method" differs only in case from a name of the envelope',
    ],
    [`[{"jsonrpc":"2.0","id":1,"method":"notifications/cancelled"}]`, "message 1 of the batch: a notification has no id"],
    [`[[${PING}]]`, "message 1 of the batch: a batch (JSON array) is not accepted; send one message per request"],
    [`[${PING},{"jsonrpc":"2.0","id":2,"method":"initialize","params":{}}]`, "initialize must not be part of a batch"],
  ])("the batch %s is rejected as a whole", (text, reason) => {
    expect(check(text)).toEqual(invalid(reason));
  });
});
