import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type ErrorDetails, SidecarError } from "../../../src/errors.ts";
import { errorBody } from "../../../src/http/error-response.ts";
import { requestTimedOut } from "../../../src/lane/failures.ts";
import { limitFailure } from "../../../src/policy/result-limit/limit-failure.ts";

interface Body {
  readonly id?: unknown;
  readonly error: { readonly code: number; readonly message: string; readonly data?: Record<string, unknown> };
}

const TIMED_OUT = requestTimedOut(
  { method: "tools/call", toolName: "search", timeoutSetting: "REQUEST_TIMEOUT_MS" },
  1500,
  true,
  "unknown",
);

function limited(error: SidecarError, maxBytes: number, idText = "12"): { readonly body: Body; readonly bytes: number } {
  const shortened = limitFailure(error, idText, maxBytes);
  const text = typeof shortened === "string" ? shortened : errorBody(shortened, idText);
  return { body: JSON.parse(text) as Body, bytes: Buffer.byteLength(text) };
}

describe("an error of the sidecar under MAX_RESULT_BYTES", () => {
  it("an error that fits exactly is unchanged", () => {
    const bytes = Buffer.byteLength(errorBody(TIMED_OUT, "12"));
    expect(limitFailure(TIMED_OUT, "12", bytes)).toBe(TIMED_OUT);
    expect(limitFailure(TIMED_OUT, "12", bytes - 1)).not.toBe(TIMED_OUT);
  });

  it("the data is shortened before the message, and the advice goes first", () => {
    const { message } = TIMED_OUT;
    const facts = { code: "REQUEST_TIMEOUT", sent: true, retrySafe: false };
    const seen = Array.from({ length: 500 }, (_, index) => limited(TIMED_OUT, 500 - index).body.error);
    const stages = seen.map(({ message: shown, data }) => [shown === message, data === undefined ? [] : Object.keys(data)]);
    const distinct = stages.filter((stage, index) => JSON.stringify(stage) !== JSON.stringify(stages[index - 1]));
    expect(distinct).toEqual([
      [true, ["code", "action", "sent", "retrySafe", "timeoutMs"]],
      [true, ["code", "sent", "retrySafe", "timeoutMs"]],
      [true, Object.keys(facts)],
      [false, Object.keys(facts)],
      [false, []],
    ]);
    for (const { data = {} } of seen) expect(data).toMatchObject(data["code"] === undefined ? {} : facts);
  });

  it("a message keeps its beginning, or becomes the code of the error", () => {
    const shown = Array.from({ length: 500 }, (_, index) => limited(TIMED_OUT, index + 1).body.error.message);
    const cut = shown.filter((message) => message !== "REQUEST_TIMEOUT");
    expect(cut.filter((message) => message.length < 64 || !TIMED_OUT.message.startsWith(message))).toEqual([]);
    expect([cut.length > 300, cut.length < shown.length]).toEqual([true, true]);
  });

  it("the error has no id if only that fits, or is shorter", () => {
    const idText = JSON.stringify("i".repeat(900));
    for (const maxBytes of [150, 10]) {
      const { body } = limited(TIMED_OUT, maxBytes, idText);
      expect(body).toEqual({
        jsonrpc: "2.0",
        error: { code: -32_603, message: "MAX_RESULT_BYTES leaves no room for a response" },
      });
    }
  });

  it("any error fits if its code as a message does, and has a message", () => {
    const details: fc.Arbitrary<ErrorDetails> = fc.record(
      {
        sent: fc.boolean(),
        retryAfterSeconds: fc.nat(),
        stderrTail: fc.array(fc.string({ unit: "binary", maxLength: 100 }), { maxLength: 5 }),
      },
      { requiredKeys: [] },
    );
    const message = fc.string({ unit: "binary", minLength: 1, maxLength: 400 });
    fc.assert(
      fc.property(message, details, fc.string({ maxLength: 200 }), fc.integer({ min: 1, max: 1000 }), (text, more, id, maxBytes) => {
        const idText = JSON.stringify(id);
        const error = new SidecarError("UPSTREAM_FAILED", text, more);
        const { body, bytes } = limited(error, maxBytes, idText);
        const shortest = Buffer.byteLength(JSON.stringify({ jsonrpc: "2.0", id, error: { code: -32_000, message: error.code } }));
        expect(bytes).toBeLessThanOrEqual(Math.max(maxBytes, shortest));
        expect(body.error.message).not.toBe("");
        expect([id, undefined]).toContain(body.id);
      }),
    );
  });
});
