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
function limit(text: string, maxBytes: number): Answer {
  const limited = limitBody(text, maxBytes) ?? "";
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
  it("any result becomes a valid one within the limit, with its sizes", () => {
    fc.assert(
      fc.property(anyResult, fc.integer({ min: 1024, max: 16_384 }), (original, maxBytes) => {
        const text = body(original);
        const originalBytes = Buffer.byteLength(text);
        expect(limitBody(text, maxBytes) === undefined).toBe(originalBytes <= maxBytes);
        if (originalBytes <= maxBytes) return;
        const { result: limited, id } = limit(text, maxBytes);
        expect(CallToolResultSchema.safeParse(limited).success).toBe(true);
        expect([id, limited["isError"]]).toEqual([2, original.isError]);
        expect(limited["_meta"]).toMatchObject({
          truncated: true,
          originalBytes,
          keptBytes: Buffer.byteLength(limitBody(text, maxBytes) ?? ""),
        });
      }),
    );
  });

  it("structuredContent is omitted if it does not fit beside the text", () => {
    const data = { rows: "r".repeat(3000) };
    const { result } = limit(body({ ...texts(JSON.stringify(data)), structuredContent: data }), 4096);
    expect(result["structuredContent"]).toBeUndefined();
    expect(JSON.parse(result.content[0]?.text ?? "")).toEqual(data);
    expect(result.content[1]?.text).toBe("[omitted: structuredContent of 3011 bytes; ask for less at a time]");
  });

  it("a note with type, name and size replaces another item that does not fit", () => {
    const data = Buffer.alloc(30_000).toString("base64");
    const small = { type: "image", mimeType: "image/gif", data: "AA==" };
    const items = [
      { type: "image", mimeType: "image/png", data },
      small,
      { type: "resource", resource: { uri: "file:///a.bin", mimeType: "application/zip", blob: data } },
      { type: "resource_link", uri: "file:///b", name: "b", description: "d".repeat(9000) },
    ];
    expect(limit(body({ content: items }), 2048).result.content.slice(0, 4)).toEqual([
      { type: "text", text: "[omitted: image, image/png, 40049 bytes]" },
      small,
      { type: "text", text: "[omitted: resource, file:///a.bin, application/zip, 40093 bytes]" },
      { type: "text", text: "[omitted: resource_link, file:///b, 9070 bytes]" },
    ]);
  });

  it("small texts are kept beside long ones, which share the room", () => {
    const { content } = limit(body(texts("first", "l".repeat(5000), "m".repeat(5000), "last")), 4096).result;
    expect(content.map(({ text }) => text[0])).toEqual(["f", "l", "m", "l"]);
    expect([content[0]?.text, content[3]?.text]).toEqual(["first", "last"]);
    for (const { text } of content.slice(1, 3)) expect(text).toMatch(/^(.)\1{40,}\n\[truncated: \d+ of 5000 bytes omitted; /);
  });

  it("items at the end are omitted if there are too many, and are counted", () => {
    const all = Array.from({ length: 5000 }, (_, index) => `line ${index}`);
    const { content } = limit(body(texts(...all)), 16_384).result;
    const kept = content.slice(0, -1).map(({ text }) => text);
    expect([kept, kept.length > 300]).toEqual([all.slice(0, kept.length), true]);
    expect(content.at(-1)?.text).toBe(`[omitted: ${5000 - kept.length} of 5000 items; ask for less at a time]`);
  });

  it("a task keeps the members that its client needs to get its result", () => {
    const at = "2026-11-21T00:00:00Z";
    const needed = { taskId: "t-1", status: "working", createdAt: at, lastUpdatedAt: at, ttl: 60_000 };
    const { result } = limit(body({ task: { ...needed, statusMessage: "s".repeat(9000) }, _meta: { a: 1 } }), 1024);
    expect(result).toMatchObject({ task: needed, _meta: { a: 1, truncated: true } });
    expect(CreateTaskResultSchema.safeParse(result).success).toBe(true);
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
      limit(JSON.stringify({ jsonrpc: "2.0", id: "i".repeat(length), result: texts("a".repeat(2000)) }), 1024),
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

  it("the data is shortened before the message, and the advice goes first", () => {
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
    for (const { message: shown } of seen) expect(shown === "REQUEST_TIMEOUT" || message.startsWith(String(shown))).toBe(true);
  });
});
