import { JSONRPCErrorResponseSchema, JSONRPCResultResponseSchema } from "@modelcontextprotocol/sdk/types.js";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { readMessage, type RequestMessage } from "../../../src/jsonrpc/message.ts";
import { answerPing, errorAnswer, refuseRequest } from "../../../src/mux/refused-requests.ts";
import { idText } from "../../support/json-text.ts";

/** The answer of one of the functions to a request of the server in this text. */
function answer(text: string, by: (request: RequestMessage) => string): string {
  const message = readMessage(text);
  if (message.kind !== "request") throw new Error(`a ${message.kind}`);
  return by(message);
}

describe("a request of the server", () => {
  it("is answered where it is a ping", () => {
    const text = answer('{"jsonrpc":"2.0","id":"p-1","method":"ping"}', answerPing);
    expect(text).toBe('{"jsonrpc":"2.0","id":"p-1","result":{}}');
    expect(JSONRPCResultResponseSchema.safeParse(JSON.parse(text)).success).toBe(true);
  });

  it.each(["sampling/createMessage", "elicitation/create", "roots/list", 'x/"odd"\n'])(
    "is refused where it is %j, as a method that no client of a shared server offers",
    (method) => {
      const text = answer(JSON.stringify({ jsonrpc: "2.0", id: 5, method, params: {} }), refuseRequest);
      expect(JSON.parse(text)).toEqual({
        jsonrpc: "2.0",
        id: 5,
        error: {
          code: -32_601,
          message: `No client of this shared MCP server can be asked for ${method}: it declared no client capabilities`,
        },
      });
      expect(JSONRPCErrorResponseSchema.safeParse(JSON.parse(text)).success).toBe(true);
      expect(text).not.toContain("\n");
    },
  );

  it("is not repeated to the server that wrote a megabyte of a method", () => {
    const text = answer(JSON.stringify({ jsonrpc: "2.0", id: 5, method: "x".repeat(1_000_000) }), refuseRequest);
    expect(text.length).toBeLessThan(300);
  });

  it("gets any id back as the server spelled it", () => {
    fc.assert(
      fc.property(idText, fc.constantFrom(answerPing, refuseRequest), (id, by) => {
        const text = answer(`{"params":{"id":0},"method":"roots/list", "id" : ${id} ,"jsonrpc":"2.0"}`, by);
        expect(text.startsWith(`{"jsonrpc":"2.0","id":${id},`)).toBe(true);
        expect(readMessage(text)).toMatchObject({ kind: "response", id: JSON.parse(id) as unknown });
      }),
    );
  });

  it("can be answered with any error in one line", () => {
    const text = errorAnswer('"a"', -32_001, 'no "answer"\nin time');
    expect(JSON.parse(text)).toEqual({ jsonrpc: "2.0", id: "a", error: { code: -32_001, message: 'no "answer"\nin time' } });
    expect(text).not.toContain("\n");
  });
});
