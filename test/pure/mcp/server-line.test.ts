import { JSONRPCMessageSchema } from "@modelcontextprotocol/sdk/types.js";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { isPlain, readText } from "../../../src/mcp/message.ts";
import { readEnds, requestIdOf, type ServerReading, settle } from "../../../src/mcp/server-line.ts";
import { keyText, memberText, objectText, valueText } from "../../support/json-text.ts";

function read(line: string): ServerReading {
  const reading = readText(line);
  if (isPlain(reading)) return reading;
  const steps = settle(line, reading);
  for (;;) {
    const { done, value } = steps.next();
    if (done === true) return value;
  }
}

describe("a response of a server", () => {
  it("any response that is read is valid for the official client, once it has the client's id", () => {
    const name = fc.constantFrom("jsonrpc", "id", "method", "result", "error", "error", "result").chain(keyText);
    const error = objectText(
      fc.array(
        memberText(fc.constantFrom('"code"', '"message"', '"data"'), fc.oneof(fc.constantFrom("1", '"5"', '"m"', "1.5"), valueText)),
      ),
    );
    const value = fc.oneof(fc.constantFrom('"2.0"', "1", '"1"', "{}", "null", '"x"'), error, valueText);
    const message = objectText(fc.array(memberText(name, value), { maxLength: 6 }).map((members) => members.concat('"jsonrpc":"2.0"')));
    let responses = 0;
    fc.assert(
      fc.property(message, (line) => {
        const reading = read(line);
        if (reading.kind !== "response") return;
        responses++;
        const parsed = JSON.parse(reading.text) as { readonly result?: unknown };
        // The members of a result are the client's business.
        const result = typeof parsed.result === "object" && !Array.isArray(parsed.result) ? { result: {} } : {};
        const withId = { ...parsed, ...result, id: "a" };
        expect([line, JSONRPCMessageSchema.safeParse(withId).success]).toEqual([line, true]);
        // Nothing is left to correct.
        expect(read(reading.text)).toMatchObject({ kind: "response", text: reading.text, id: reading.id });
      }),
      { numRuns: 3000 },
    );
    expect(responses).toBeGreaterThan(100);
  });

  it("only the plain decimal text of a number is a number", () => {
    const ids = ["3", "0", '"3"', '"0"', "3.0", String.raw`"\u0033"`];
    expect(ids.map((id) => requestIdOf(id))).toEqual([3, 0, 3, 0, 3, 3]);
    for (const id of [
      '"03"',
      '"3.0"',
      '" 3"',
      '"3 "',
      '"+3"',
      '"-3"',
      '""',
      '"1e1"',
      '"0x3"',
      '"９"',
      "null",
      "true",
      "[3]",
      "3.5",
      "",
      '"x'.padEnd(200, "1"),
    ])
      expect([id, requestIdOf(id)]).toEqual([id, undefined]);
  });
});

describe("a line with text around a message", () => {
  it("the time is linear, however often a message seems to begin", () => {
    for (const part of ['{"id":', '{"id":[', '{"id":"{', "{ ", "\u001B]", "\u001B[", " \u001B", '{"result":{"a":', '"{\\"id\\":'])
      for (const end of ["", "}", '"}', "\u001B[0m"]) {
        const startMs = performance.now();
        read(`x ${part.repeat(1_000_000 / part.length)}${end}`);
        // A quadratic search would take many minutes.
        expect(performance.now() - startMs).toBeLessThan(20_000);
      }
  });
});

describe("the ends of a line that is discarded", () => {
  const rest = `"${"x".repeat(1000)}"`;
  function endsOf(line: string): ReturnType<typeof readEnds> {
    return readEnds(line.slice(0, 256), line.slice(-256));
  }

  it.each([
    `{"jsonrpc":"2.0","id":7,"CONTENT":${rest}}`,
    `{ "id" : 7 , "jsonrpc" : "2.0" , "CONTENT" : ${rest} }`,
    `{"CONTENT":${rest},"jsonrpc":"2.0","id":7}`,
    `{"CONTENT":{"a":[${rest}]},"id":7,"jsonrpc":"2.0"}\r`,
    `\uFEFF\u001B[0m {"jsonrpc":"2.0","CONTENT":${rest},"id":7}`,
  ])("show the id and the method of %.60s", (line) => {
    for (const name of ["result", "error", "method"])
      expect(endsOf(line.replace("CONTENT", name))).toEqual({ idText: "7", hasMethod: name === "method" });
    expect(endsOf(line.replace("CONTENT", "result").replace("7", '"7"')).idText).toBe('"7"');
  });

  it.each([
    // Text of a client in a message, or before it.
    `{"result":{"a":${rest},"id":7}}`,
    `{"result":[${rest},{"a":1,"id":7}]}`,
    `{"result":${rest.slice(0, -1)},\\"id\\":7}"}`,
    `text {"jsonrpc":"2.0","id":7,"result":${rest}}`,
    // Parsers differ on which one counts.
    `{"id":7,"result":${rest},"id":8}`,
    `{"id":{"id":7},"result":${rest}}`,
    `{"id":"${"x".repeat(200)}","result":${rest}}`,
    `[{"id":7,"result":${rest}}]`,
    `{"other":1,"id":7,"result":${rest}}`,
  ])("show no id of %.60s", (line) => {
    expect(endsOf(line).idText).toBeUndefined();
  });
});
