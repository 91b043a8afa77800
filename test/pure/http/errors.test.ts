import { JSONRPCErrorResponseSchema } from "@modelcontextprotocol/sdk/types.js";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { actionOf, ERROR_CATALOG, SidecarError, type SidecarErrorCode } from "../../../src/mcp/errors.ts";
import { errorBody, errorStatus, modernStatus } from "../../../src/http/response.ts";
import { idText } from "../../support/json-text.ts";

const CODES = Object.keys(ERROR_CATALOG) as SidecarErrorCode[];

describe("an error of the sidecar", () => {
  it.each(CODES)("%s has a short advice, the status of the table, and a body that matches the schema of MCP", (code) => {
    for (const action of [actionOf(code), actionOf(code, true), actionOf(code, false, "sse"), actionOf(code, false, "browser")])
      expect(action).toMatch(/^[A-Z].{10,198}[.]$/);
    const [unsent, sent] = [new SidecarError(code, "why"), new SidecarError(code, "why", { sent: true })];
    expect([errorStatus(unsent), errorStatus(sent)]).toEqual([ERROR_CATALOG[code].httpStatus, 200]);
    const data = (error: SidecarError): unknown => (JSON.parse(errorBody(error, "1")) as { error: { data: unknown } }).error.data;
    expect(data(unsent)).toMatchObject({ code, sent: false, retrySafe: true });
    expect(data(sent)).toMatchObject({ code, sent: true, retrySafe: false });
    expect(data(new SidecarError(code, "why", { sent: true, retrySafe: true }))).toMatchObject({ sent: true, retrySafe: true });
    for (const id of ["1", '"a"', ...(code === "UNAUTHORIZED" ? [] : [undefined])])
      expect(JSONRPCErrorResponseSchema.safeParse(JSON.parse(errorBody(unsent, id))).success).toBe(true);
    // Codes from -32000 to -32019 are reserved for earlier revisions.
    const modern = JSON.parse(errorBody(unsent, "7", "modern")) as { error: { code: number; data: object } };
    expect(modern.error.code <= -32_000 && modern.error.code >= -32_019).toBe(false);
    expect(modern.error.data).toMatchObject({ code });
  });

  it("the advice fits the client and what has happened", () => {
    for (const code of ["SESSION_REQUIRED", "SESSION_NOT_FOUND"] as const)
      expect(new SidecarError(code, "why", {}, "sse").data?.action).toMatch(/^Open `\/sse`, /);
    expect(new SidecarError("SESSION_REQUIRED", "why", {}, "browser").data?.action).toMatch(/^Give this URL to an MCP client\. /);
    expect(actionOf("SHUTTING_DOWN")).toContain("another instance");
    expect(actionOf("SHUTTING_DOWN", true)).toContain("check whether it took effect");
  });

  it("the body keeps the spelling of any id", () => {
    fc.assert(
      fc.property(idText, (id) => {
        const body = errorBody(new SidecarError("REQUEST_TIMEOUT", "late"), id);
        expect(body.startsWith(`{"jsonrpc":"2.0","id":${id},"error":{`)).toBe(true);
        expect((JSON.parse(body) as { id: unknown }).id).toBe(JSON.parse(id));
      }),
    );
  });
});

describe("the status of a server's response to a client without a session", () => {
  it.each([
    [String.raw`{"jsonrpc":"2.0","id":1,"result":{"isError":true,"content":[{"type":"text","text":"\"error\""}]}}`, 200],
    ['{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no"}}', 404],
    ['{"jsonrpc":"2.0","id":1,"error":{"code":-32020,"message":"no"}}', 400],
    ['{"jsonrpc":"2.0","id":1,"error":{"message":"no","code":-32022}}', 400],
    ['{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"no"}}', 200],
    ['{"jsonrpc":"2.0","id":1,"error":{}}', 200],
  ])("the response %s has HTTP status %i", (body, status) => {
    expect(modernStatus(body)).toBe(status);
  });
});
