import { JSONRPCErrorResponseSchema } from "@modelcontextprotocol/sdk/types.js";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { ERROR_CATALOG } from "../../../src/error-catalog/error-catalog.ts";
import { actionOf, SidecarError, type SidecarErrorCode } from "../../../src/errors.ts";
import { errorBody, errorHeaders, errorStatus } from "../../../src/http/error-response.ts";
import { idText } from "../../support/json-text.ts";

const CODES = Object.keys(ERROR_CATALOG) as SidecarErrorCode[];

describe("the table of errors", () => {
  it.each([
    ["PARSE_ERROR", 400, -32_700],
    ["INVALID_REQUEST", 400, -32_600],
    ["ORIGIN_NOT_ALLOWED", 403, -32_000],
    ["HOST_NOT_ALLOWED", 403, -32_000],
    ["UNAUTHORIZED", 401, -32_000],
    ["METHOD_NOT_ALLOWED", 405, -32_000],
    ["NOT_ACCEPTABLE", 406, -32_000],
    ["UNSUPPORTED_MEDIA_TYPE", 415, -32_000],
    ["BODY_TOO_LARGE", 413, -32_000],
    ["SESSION_REQUIRED", 400, -32_000],
    ["SESSION_NOT_FOUND", 404, -32_001],
    ["UNSUPPORTED_PROTOCOL_VERSION", 400, -32_000],
    ["REQUEST_TIMEOUT", 200, -32_001],
    ["UPSTREAM_EXITED", 200, -32_603],
    ["UPSTREAM_RESPONSE_TOO_LARGE", 200, -32_603],
    ["UPSTREAM_NOT_READY", 503, -32_000],
    ["OVERLOADED", 503, -32_000],
    ["BODY_INCOMPLETE", 400, -32_000],
    ["REQUEST_CANCELLED", 200, -32_000],
    ["SHUTTING_DOWN", 503, -32_000],
    ["NOT_FOUND", 404, -32_000],
    ["INTERNAL_ERROR", 500, -32_603],
  ] as const)("the error %s has HTTP status %i and JSON-RPC code %i", (code, httpStatus, jsonRpcCode) => {
    expect(ERROR_CATALOG[code]).toMatchObject({ httpStatus, jsonRpcCode });
  });

  it("only a missing session, method or path is answered with 404", () => {
    expect(CODES.filter((code) => ERROR_CATALOG[code].httpStatus === 404)).toEqual(["SESSION_NOT_FOUND", "METHOD_NOT_FOUND", "NOT_FOUND"]);
  });

  it.each(CODES)("the advice for %s is one short sentence that fits into 1 KiB", (code) => {
    for (const action of [actionOf(code), actionOf(code, true), actionOf(code, false, "sse"), actionOf(code, false, "browser")]) {
      expect(action).toMatch(/^[A-Z].*[.]$/);
      expect(Buffer.byteLength(action)).toBeLessThan(200);
    }
  });

  it.each(["SESSION_REQUIRED", "SESSION_NOT_FOUND"] as const)("the advice for %s on HTTP+SSE begins with its stream", (code) => {
    const { data } = new SidecarError(code, "why", {}, "sse");
    expect(data?.action).toBe("Open `/sse`, and post initialize to the URL that its first event names.");
  });

  it("a browser without a session gets advice for a person", () => {
    expect(new SidecarError("SESSION_REQUIRED", "why", {}, "browser").data?.action).toMatch(
      /^Give this URL to an MCP client\. `\/readyz` /,
    );
  });

  it("a request that was sent gets another advice", () => {
    expect(new SidecarError("SHUTTING_DOWN", "why").data).toMatchObject({ action: expect.stringContaining("another instance") as string });
    expect(new SidecarError("SHUTTING_DOWN", "why", { sent: true }).data).toMatchObject({
      action: expect.stringContaining("check whether it took effect") as string,
    });
  });
});

describe("the HTTP status of an error", () => {
  it.each(CODES)("the status of %s is that of the table, and 200 after it was sent", (code) => {
    expect(errorStatus(new SidecarError(code, "why"))).toBe(ERROR_CATALOG[code].httpStatus);
    expect(errorStatus(new SidecarError(code, "why", { sent: false }))).toBe(ERROR_CATALOG[code].httpStatus);
    expect(errorStatus(new SidecarError(code, "why", { sent: true }))).toBe(200);
  });
});

describe("the body of an error", () => {
  it("the body has the message, the stable code and the details", () => {
    const error = new SidecarError("UPSTREAM_EXITED", 'It "stopped".\n', { sent: true, retrySafe: false, exitCode: 0 });
    expect(JSON.parse(errorBody(error, "2"))).toEqual({
      jsonrpc: "2.0",
      id: 2,
      error: {
        code: -32_603,
        message: 'It "stopped".\n',
        data: { code: "UPSTREAM_EXITED", action: ERROR_CATALOG.UPSTREAM_EXITED.action, sent: true, retrySafe: false, exitCode: 0 },
      },
    });
  });

  it("the body has no id if there is none", () => {
    const { action } = ERROR_CATALOG.PARSE_ERROR;
    expect(errorBody(new SidecarError("PARSE_ERROR", "no"), undefined)).toBe(
      `{"jsonrpc":"2.0","error":{"code":-32700,"message":"no","data":{"code":"PARSE_ERROR","action":"${action}","sent":false,"retrySafe":true}}}`,
    );
  });

  it("the body for a missing token has the id null", () => {
    expect(errorBody(new SidecarError("UNAUTHORIZED", "no"), undefined)).toMatch(/^{"jsonrpc":"2.0","id":null,"error":{/);
  });

  it.each(CODES)("the body of %s says that nothing was sent, unless the error says otherwise", (code) => {
    const data = (error: SidecarError): unknown => (JSON.parse(errorBody(error, "1")) as { error: { data: unknown } }).error.data;
    expect(data(new SidecarError(code, "why"))).toMatchObject({ sent: false, retrySafe: true });
    expect(data(new SidecarError(code, "why", { sent: true }))).toMatchObject({ sent: true, retrySafe: false });
    expect(data(new SidecarError(code, "why", { sent: true, retrySafe: true }))).toMatchObject({ sent: true, retrySafe: true });
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

  it.each(CODES)("the body of %s matches the schema of MCP, with and without an id", (code) => {
    const error = new SidecarError(code, "why", { sent: false, supported: ["2025-11-25"], retryAfterSeconds: 1 });
    for (const id of ["1", '"a"', ...(code === "UNAUTHORIZED" ? [] : [undefined])]) {
      expect(JSONRPCErrorResponseSchema.safeParse(JSON.parse(errorBody(error, id))).success).toBe(true);
    }
  });
});

describe("the headers of an error", () => {
  it("the header Retry-After is set only if the error has a pause", () => {
    expect(errorHeaders(new SidecarError("OVERLOADED", "busy", { retryAfterSeconds: 4 }))).toEqual({ "Retry-After": "4" });
    expect(errorHeaders(new SidecarError("REQUEST_TIMEOUT", "late", { sent: true }))).toEqual({});
  });
});
