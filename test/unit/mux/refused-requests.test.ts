import { JSONRPCErrorResponseSchema, JSONRPCResultResponseSchema } from "@modelcontextprotocol/sdk/types.js";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { classify } from "../../../src/jsonrpc/message.ts";
import { answerServerRequest } from "../../../src/mux/server-requests.ts";
import { idText } from "../../support/json-text.ts";

/** The answer to a request of the server in this text. */
function answer(text: string): string {
  const message = classify(JSON.parse(text));
  if (message.kind !== "request") throw new Error(`a ${message.kind}`);
  return answerServerRequest(message, text);
}

describe("answerServerRequest", () => {
  it("answers a ping", () => {
    const text = answer('{"jsonrpc":"2.0","id":"p-1","method":"ping"}');
    expect(text).toBe('{"jsonrpc":"2.0","id":"p-1","result":{}}');
    expect(JSONRPCResultResponseSchema.safeParse(JSON.parse(text)).success).toBe(true);
  });

  it.each(["sampling/createMessage", "elicitation/create", "roots/list", 'x/"odd"\n'])(
    "refuses %j as a method that no client offers",
    (method) => {
      const text = answer(JSON.stringify({ jsonrpc: "2.0", id: 5, method, params: {} }));
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

  it("gives any id back as the server spelled it", () => {
    fc.assert(
      fc.property(idText, fc.constantFrom("ping", "roots/list"), (id, method) => {
        const text = answer(`{"params":{"id":0},"method":"${method}", "id" : ${id} ,"jsonrpc":"2.0"}`);
        expect(text.startsWith(`{"jsonrpc":"2.0","id":${id},`)).toBe(true);
        expect(classify(JSON.parse(text))).toMatchObject({ kind: "response", id: JSON.parse(id) as unknown });
      }),
    );
  });
});
