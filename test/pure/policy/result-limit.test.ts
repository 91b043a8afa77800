import { CallToolResultSchema, CreateTaskResultSchema } from "@modelcontextprotocol/sdk/types.js";
import * as fc from "fast-check";
import { expect, it } from "vitest";
import { limitResult } from "../../../src/policy/result-limit.ts";

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

/** What a response may be longer than the limit, besides its id (docs/decisions/0012). */
const TOLERANCE_BYTES = 1024;

/** @returns the limited response, after checks that apply to every response. */
function limit(text: string, maxBytes: number, idText = "2"): Answer {
  const limited = limitResult(text, idText, maxBytes) ?? "";
  expect(Buffer.byteLength(limited) - Buffer.byteLength(idText)).toBeLessThanOrEqual(maxBytes + TOLERANCE_BYTES);
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

it("any result becomes a valid one of about the limit, with its original size", () => {
  fc.assert(
    fc.property(anyResult, fc.integer({ min: 1024, max: 16_384 }), fc.string({ maxLength: 2000 }), (original, maxBytes, id) => {
      const idText = JSON.stringify(id);
      const text = `{"jsonrpc":"2.0","id":${idText},"result":${JSON.stringify(original)}}`;
      const originalBytes = Buffer.byteLength(text);
      const isLong = originalBytes - Buffer.byteLength(idText) > maxBytes;
      expect(limitResult(text, idText, maxBytes) === undefined).toBe(!isLong);
      if (!isLong) return;
      const answer = limit(text, maxBytes, idText);
      expect(CallToolResultSchema.safeParse(answer.result).success).toBe(true);
      expect([answer.id, answer.result["isError"]]).toEqual([id, original.isError]);
      expect(answer.result["_meta"]).toMatchObject({ truncated: true, originalBytes });
    }),
  );
});

it("whatever a server sends as a result or an error, the response is valid JSON of about the limit", () => {
  const [long, wide] = ["x".repeat(20_000), "é".repeat(20_000)];
  const leaf = fc.oneof(fc.constantFrom(long, wide), fc.string({ unit: "binary" }), fc.constantFrom("task", "text", null, 1, true));
  const known = "content structuredContent isError resultType _meta task taskId status ttl ttlMs type text code message data";
  const names = fc.constantFrom(...known.split(" "), "x");
  const { value } = fc.letrec((tie) => ({
    value: fc.oneof({ maxDepth: 4 }, leaf, fc.dictionary(names, tie("value")), fc.array(tie("value"), { maxLength: 4 })),
  }));
  fc.assert(
    fc.property(fc.constantFrom("result", "error"), value, fc.integer({ min: 1024, max: 16_384 }), (name, part, maxBytes) => {
      const text = JSON.stringify({ jsonrpc: "2.0", id: 2, [name]: part });
      if (Buffer.byteLength(text) - 1 <= maxBytes) return;
      expect(Object.keys(limit(text, maxBytes))).toEqual(["jsonrpc", "id", name]);
    }),
  );
});

it("a million items, members and objects are passed over", () => {
  const many = 1_000_000;
  for (const result of [
    `{"content":[${"0,".repeat(many)}0]}`,
    `{"content":[{"type":"image","data":"${"A".repeat(2000)}"}${',{"type":"image"}'.repeat(many)}]}`,
    `{"content":[]${',"a":0'.repeat(many)},"isError":true}`,
    `{"content":[],"_meta":{"a":0${',"a":0'.repeat(many)}}}`,
  ]) {
    const limited = limit(`{"jsonrpc":"2.0","id":2,"result":${result}}`, 1024);
    expect(limited.result.content.at(-1)?.text).toMatch(/^\[truncated: \d{7,} of \d{7,} bytes omitted/);
  }
});

it("structuredContent is left out of a truncated result", () => {
  const data = { rows: "r".repeat(3000) };
  const { result } = limit(body({ ...texts(JSON.stringify(data)), structuredContent: data }), 4096);
  expect(result["structuredContent"]).toBeUndefined();
  expect(JSON.parse(result.content[0]?.text ?? "")).toEqual(data);
  expect(result.content[1]?.text).toMatch(/^\[truncated: 30\d\d of 61\d\d bytes omitted; ask for less at a time\]$/);
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

it("the flags of a result and a short _meta are kept, other members are not", () => {
  const kept = { isError: true, resultType: "complete" };
  const { result } = limit(body({ x: 1, ...kept, ...texts("a".repeat(5000)), _meta: { a: 1, truncated: false } }), 1024);
  expect(result).toEqual({
    ...kept,
    content: [expect.anything()],
    _meta: { a: 1, truncated: true, originalBytes: expect.any(Number) as number },
  });
  const long = limit(body({ ...texts("a"), _meta: { a: "a".repeat(1024) } }), 1024).result;
  expect(long["_meta"]).toEqual({ truncated: true, originalBytes: expect.any(Number) as number });
});

it.each([
  { toolResult: "x".repeat(5000) },
  "x".repeat(5000),
  ["x".repeat(5000)],
  { content: "x".repeat(5000) },
  { resultType: "input_required", inputRequests: "x".repeat(5000) },
])("a result that cannot be truncated is replaced by an error for the model", (result) => {
  const answer = limit(body(result), 1024);
  const ofType = typeof result === "object" && "resultType" in result ? { resultType: "complete" } : {};
  expect(CallToolResultSchema.parse(answer.result)).toMatchObject({ isError: true, ...ofType, _meta: { truncated: true } });
  expect(answer.result.content[0]?.text).toBe("[Response too large and not a tool result; content omitted]");
});

it("an error with long data keeps its code and message", () => {
  const error = { code: -32_042, message: "short", data: "d".repeat(5000) };
  const data = { truncated: true, originalBytes: expect.any(Number) as number };
  expect(limit(JSON.stringify({ jsonrpc: "2.0", id: 2, error }), 1024).error).toEqual({ ...error, data });
  const long = limit(JSON.stringify({ jsonrpc: "2.0", id: 2, error: { ...error, message: "m".repeat(5000) } }), 1024).error;
  expect(long).toEqual({ ...error, message: expect.stringMatching(/^m+\n\[truncated: \d+ of \d+ bytes omitted; /) as string, data });
});
