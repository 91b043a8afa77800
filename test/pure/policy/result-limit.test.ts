import { CallToolResultSchema, CreateTaskResultSchema } from "@modelcontextprotocol/sdk/types.js";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { SidecarError } from "../../../src/mcp/errors.ts";
import { errorBody } from "../../../src/http/response.ts";
import { limitBody, limitFailure } from "../../../src/policy/result-limit.ts";

interface Answer {
  readonly id?: unknown;
  readonly result: { readonly content: { readonly type: string; readonly text: string }[]; readonly [name: string]: unknown };
  readonly error: { readonly code: number; readonly message: string; readonly data: unknown };
}

function body(result: unknown): string {
  return JSON.stringify({ jsonrpc: "2.0", id: 2, result });
}

function texts(...all: string[]): object {
  return { content: all.map((text) => ({ type: "text", text })) };
}

/** @returns the limited response, after checks that apply to every response. */
function limit(text: string, maxBytes: number, idText = "2"): Answer {
  const limited = limitBody(text, idText, maxBytes) ?? "";
  expect(Buffer.byteLength(limited)).toBeLessThanOrEqual(maxBytes);
  return JSON.parse(limited) as Answer;
}

const item = fc.oneof(
  fc.string({ unit: "binary", maxLength: 5000, size: "max" }).map((text) => ({ type: "text", text })),
  fc.nat(5000).map((length) => ({ type: "image", mimeType: "image/png", data: "AAAA".repeat(length) })),
);
const anyResult = fc.record(
  { content: fc.array(item), structuredContent: fc.dictionary(fc.string(), fc.string()), isError: fc.boolean(), _meta: fc.object() },
  { requiredKeys: ["content"] },
);

describe("a result above MAX_RESULT_BYTES", () => {
  it("any result becomes a valid one within the limit, with its original size", () => {
    fc.assert(
      fc.property(anyResult, fc.integer({ min: 1024, max: 16_384 }), (original, maxBytes) => {
        const text = body(original);
        const originalBytes = Buffer.byteLength(text);
        expect(limitBody(text, "2", maxBytes) === undefined).toBe(originalBytes <= maxBytes);
        if (originalBytes <= maxBytes) return;
        const { result: limited, id } = limit(text, maxBytes);
        expect(CallToolResultSchema.safeParse(limited).success).toBe(true);
        expect([id, limited["isError"]]).toEqual([2, original.isError]);
        expect(limited["_meta"]).toMatchObject({ truncated: true, originalBytes });
      }),
    );
  });

  it("structuredContent is omitted if it does not fit beside the text", () => {
    const data = { rows: "r".repeat(3000) };
    const { result } = limit(body({ ...texts(JSON.stringify(data)), structuredContent: data }), 4096);
    expect(result["structuredContent"]).toBeUndefined();
    expect(JSON.parse(result.content[0]?.text ?? "")).toEqual(data);
    expect(result.content[1]?.text).toMatch(/^\[truncated: 29\d\d of 61\d\d bytes omitted; ask for less at a time\]$/);
  });

  it("items without a text that do not fit are left out, and a note says so", () => {
    const data = Buffer.alloc(30_000).toString("base64");
    const small = { type: "image", mimeType: "image/gif", data: "AA==" };
    const items = [
      { type: "image", mimeType: "image/png", data },
      small,
      { type: "resource", resource: { uri: "file:///a.bin", mimeType: "application/zip", blob: data } },
      { type: "text", text: "last" },
    ];
    const { content } = limit(body({ content: items }), 2048).result;
    expect(content).toEqual([
      small,
      items[3],
      { type: "text", text: expect.stringMatching(/^\[truncated: 80\d{3} of 80\d{3} bytes/) as string },
    ]);
  });

  it("the first text that does not fit is cut, and ends the content", () => {
    const { content } = limit(body(texts("first", "l".repeat(5000), "m".repeat(5000), "last")), 4096).result;
    expect(content.map(({ text }) => text)).toEqual([
      "first",
      expect.stringMatching(/^l{3700,}\n\[truncated: \d+ of 10\d{3} bytes omitted; /),
    ]);
  });

  it("many items are kept in their order, as far as they fit", () => {
    const all = Array.from({ length: 5000 }, (_, index) => `line ${index}`);
    const { content } = limit(body(texts(...all)), 16_384).result;
    const kept = content.slice(0, -1).map(({ text }) => text);
    expect([kept, kept.length > 300]).toEqual([all.slice(0, kept.length), true]);
    expect(content.at(-1)?.text).toMatch(/^\[truncated: \d+ of \d+ bytes omitted; ask for less at a time\]$/);
  });

  it("a text is cut between characters, whether or not they are escaped", () => {
    const result = (text: string): string => `{"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"${text}"}]}}`;
    for (const character of ["é", "😀", String.raw`\n`, String.raw`\\`, String.raw`\u00e9`, String.raw`\ud83d\ude00`]) {
      const value = JSON.parse(`"${character}"`) as string;
      for (let before = 0; before < 12; before++) {
        const [shown = ""] =
          limit(result("a".repeat(before) + character.repeat(2000)), 1024).result.content[0]?.text.split("\n[truncated") ?? [];
        expect(shown.slice(before).replaceAll(value, "")).toBe("");
        expect(shown.length).toBeGreaterThan(100);
      }
    }
  });

  it("a task keeps the members that its client needs to get its result", () => {
    const at = "2026-11-21T00:00:00Z";
    const needed = { taskId: "t-1", status: "working", createdAt: at, lastUpdatedAt: at, ttl: 60_000 };
    const { result } = limit(body({ task: { ...needed, statusMessage: "s".repeat(9000) }, _meta: { a: 1 } }), 1024);
    expect(result).toMatchObject({ task: needed, _meta: { a: 1, truncated: true } });
    expect(CreateTaskResultSchema.safeParse(result).success).toBe(true);
  });

  it("a task of revision 2026-07-28 keeps the members that its client needs to get its result", () => {
    const at = "2026-11-21T00:00:00Z";
    const needed = { resultType: "task", taskId: "t-1", status: "working", createdAt: at, lastUpdatedAt: at, ttlMs: 60_000 };
    const { result } = limit(body({ statusMessage: "s".repeat(9000), ...needed, _meta: { a: 1 } }), 1024);
    expect(result).toEqual({ ...needed, _meta: { a: 1, truncated: true, originalBytes: expect.any(Number) as number } });
  });

  it("the type of a result is kept beside other members, and is that of a result for the model if it is replaced", () => {
    const others = { x: "x".repeat(115), resultType: "complete" };
    expect(limit(body({ ...others, ...texts("a".repeat(5000)) }), 1024).result).toMatchObject(others);
    const replaced = { isError: true, resultType: "complete" };
    expect(limit(body({ resultType: "input_required", inputRequests: "a".repeat(5000) }), 1024).result).toMatchObject(replaced);
  });

  it.each([{ toolResult: "x".repeat(5000) }, "x".repeat(5000), ["x".repeat(5000)], { content: "x".repeat(5000) }])(
    "a result that cannot be truncated is replaced by an error for the model",
    (result) => {
      const answer = limit(body(result), 1024);
      expect(CallToolResultSchema.parse(answer.result)).toMatchObject({ isError: true, _meta: { truncated: true } });
      expect(answer.result.content[0]?.text).toBe("[Response too large and not a tool result; content omitted]");
    },
  );

  it("a long id is kept as long as there is room for a result, and is else omitted", () => {
    const answers = [700, 900, 2000].map((length) =>
      limit(JSON.stringify({ jsonrpc: "2.0", id: "i".repeat(length), result: texts("a".repeat(2000)) }), 1024, `"${"i".repeat(length)}"`),
    );
    expect(answers.map(({ id }) => id)).toEqual(["i".repeat(700), "i".repeat(900), undefined]);
    expect([answers[1]?.result["_meta"], answers[2]?.error.code]).toEqual([expect.objectContaining({ truncated: true }), -32_603]);
  });
});

describe("an error of the sidecar under MAX_RESULT_BYTES", () => {
  const message = "The request was not answered in time, so it may have taken effect. ".repeat(3);
  const error = new SidecarError("REQUEST_TIMEOUT", message, { sent: true, retrySafe: false });

  /** Returns the error as it is sent within the limit. */
  function limited(maxBytes: number, idText = "12"): { readonly id?: unknown; readonly error: Record<string, unknown> } {
    const shortened = limitFailure(error, idText, maxBytes);
    const text = typeof shortened === "string" ? shortened : errorBody(shortened, idText);
    return JSON.parse(text) as ReturnType<typeof limited>;
  }

  it("the advice goes first, then the code replaces the message", () => {
    const seen = Array.from({ length: 500 }, (_, index) => limited(500 - index).error);
    const stages = seen.map(({ message: shown, data }) => [shown === message, Object.keys(data ?? {}).join(" ")]);
    const distinct = stages.filter((stage, index) => JSON.stringify(stage) !== JSON.stringify(stages[index - 1]));
    const facts = "code sent retrySafe";
    expect(distinct).toEqual([
      [true, "code action sent retrySafe"],
      [true, facts],
      [false, facts],
      [false, ""],
    ]);
    expect(new Set(seen.map(({ message: shown }) => shown))).toEqual(new Set([message, "REQUEST_TIMEOUT"]));
  });
});
