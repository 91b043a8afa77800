import { ErrorCode, LATEST_PROTOCOL_VERSION, SUPPORTED_PROTOCOL_VERSIONS } from "@modelcontextprotocol/sdk/types.js";
import { describe, expect, it } from "vitest";
import { JsonRpcErrorCode } from "../../../src/protocol/error-codes.ts";
import { hasBatches, hasPrimedStreams, LEGACY_PROTOCOL_VERSIONS, NEWEST_LEGACY_PROTOCOL_VERSION } from "../../../src/protocol/versions.ts";

describe("protocol versions", () => {
  it("the versions are those of the official SDK, newest first", () => {
    expect(LEGACY_PROTOCOL_VERSIONS).toEqual(SUPPORTED_PROTOCOL_VERSIONS);
    expect(NEWEST_LEGACY_PROTOCOL_VERSION).toBe(LATEST_PROTOCOL_VERSION);
    expect(LEGACY_PROTOCOL_VERSIONS[0]).toBe(NEWEST_LEGACY_PROTOCOL_VERSION);
    expect(LEGACY_PROTOCOL_VERSIONS).toEqual([...LEGACY_PROTOCOL_VERSIONS].sort().toReversed());
  });
});

describe("a protocol version", () => {
  it("batches end with 2025-03-26, and primed streams begin with 2025-11-25", () => {
    expect(LEGACY_PROTOCOL_VERSIONS.filter(hasBatches)).toEqual(["2025-03-26", "2024-11-05", "2024-10-07"]);
    expect(LEGACY_PROTOCOL_VERSIONS.filter(hasPrimedStreams)).toEqual(["2025-11-25"]);
  });

  it("unknown versions are judged by their date", () => {
    expect(["2025-05-01", "2025-06-19", "2026-01-01"].map((version) => [hasBatches(version), hasPrimedStreams(version)])).toEqual([
      [true, false],
      [false, false],
      [false, true],
    ]);
  });
});

describe("error codes", () => {
  it("the codes are those of the official SDK if it has them", () => {
    const { ParseError, InvalidRequest, MethodNotFound, InternalError, SessionOrTimeout } = JsonRpcErrorCode;
    expect(ParseError).toBe(ErrorCode.ParseError);
    expect(InvalidRequest).toBe(ErrorCode.InvalidRequest);
    expect(MethodNotFound).toBe(ErrorCode.MethodNotFound);
    expect(InternalError).toBe(ErrorCode.InternalError);
    expect(SessionOrTimeout).toBe(ErrorCode.RequestTimeout);
  });

  it("only the codes of the revision without sessions are in its own range", () => {
    expect(JsonRpcErrorCode.ServerError).toBe(-32000);
    expect(Object.values(JsonRpcErrorCode).filter((code) => code <= -32_020 && code >= -32_099)).toEqual([-32_020, -32_021, -32_022]);
  });
});
