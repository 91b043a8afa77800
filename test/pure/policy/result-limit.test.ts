import { CallToolResultSchema, CreateTaskResultSchema, JSONRPCErrorSchema } from "@modelcontextprotocol/sdk/types.js";
import { describe, expect, it } from "vitest";
import { SidecarError } from "../../../src/errors.ts";
import { errorBody } from "../../../src/http/error-response.ts";
import { cutString } from "../../../src/policy/result-limit/cut.ts";
import { limitFailure } from "../../../src/policy/result-limit/limit-failure.ts";
import { limitBody } from "../../../src/policy/result-limit/limit.ts";

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

describe("a result above MAX_RESULT_BYTES", () => {
  it("a result that fits exactly is unchanged, and a byte less is not enough", () => {
    const text = body(texts("é".repeat(1000)));
    expect(limitBody(text, Buffer.byteLength(text))).toBeUndefined();
    expect(limitBody(text, Buffer.byteLength(text) - 1)).toBeDefined();
  });

  it("a long text is truncated, with a note on its last line and the sizes in _meta", () => {
    const text = body(texts("a".repeat(20_000)));
    const { result, id } = limit(text, 16_384);
    const pattern = /^(a+)\n\[truncated: (\d+) of 20000 bytes omitted; ask for less at a time\]$/;
    const [, kept = "", omitted] = pattern.exec(result.content[0]?.text ?? "") ?? [];
    expect([id, Number(omitted), kept.length > 16_000]).toEqual([2, 20_000 - kept.length, true]);
    expect(result["_meta"]).toEqual({ truncated: true, originalBytes: text.length, keptBytes: body(result).length });
  });

  it("the spelling of kept numbers, escapes and ids is unchanged", () => {
    const structured = String.raw`{"big":9007199254740993,"small":1.0,"esc":"\u0041\/"}`;
    const image = `{"type":"image","mimeType":"image/png","data":"${"A".repeat(30_000)}"}`;
    const kept = [
      '"id":1.0,',
      '{"type":"text","text":"\\u0041\\/"}',
      `"structuredContent":${structured}`,
      '"x-own":1e400',
      '"isError":true',
    ];
    const text = `{"id":1.0,"jsonrpc":"2.0","result":{"content":[${kept[1]},${image}],${kept[3]},${kept[2]},${kept[4]}}}`;
    for (const part of kept) expect(limitBody(text, 4096)).toContain(part);
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

  it("an error keeps its code, loses its data, and has its message truncated only if that is too long", () => {
    for (const message of ["short", "m".repeat(5000)]) {
      const answer = limit(JSON.stringify({ jsonrpc: "2.0", id: "a", error: { code: -32_042, message, data: "d".repeat(5000) } }), 1024);
      expect(answer.error).toMatchObject({ code: -32_042, data: { truncated: true } });
      expect(answer.error.message).toMatch(message === "short" ? /^short$/ : /^m{700,}\n\[truncated: .*\]$/);
      expect(JSONRPCErrorSchema.safeParse(answer).success).toBe(true);
    }
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

describe("the beginning of a string within a number of bytes", () => {
  it.each([
    ["abcdef", 3, "abc"],
    ["é€😀", 8, "é€"],
    ["é€😀", 9, "é€😀"],
    // Escapes and pairs stay whole, and half of a pair alone is a character.
    [String.raw`a\nb`, 2, "a"],
    [String.raw`\u0041\u0042`, 11, String.raw`\u0041`],
    [String.raw`\\\\\\`, 5, String.raw`\\\\`],
    [String.raw`\\u0041`, 4, String.raw`\\u0`],
    [String.raw`\ud83d\ude00a`, 11, ""],
    [String.raw`\ud83d\u0041`, 6, String.raw`\ud83d`],
    [String.raw`\\ud83d\ude00`, 7, String.raw`\\ud83d`],
  ])("%s in %i bytes becomes %s", (inner, maxBytes, expected) => {
    expect(cutString(`"${inner}"`, { start: 0, end: inner.length + 2 }, maxBytes)).toBe(expected);
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

  it("an error that fits exactly is unchanged", () => {
    const bytes = Buffer.byteLength(errorBody(error, "12"));
    expect(limitFailure(error, "12", bytes)).toBe(error);
    expect(limitFailure(error, "12", bytes - 1)).not.toBe(error);
  });

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

  it("the error has no id if only that fits", () => {
    const idText = JSON.stringify("i".repeat(900));
    expect(limited(150, idText)).toEqual({
      jsonrpc: "2.0",
      error: { code: -32_603, message: "MAX_RESULT_BYTES leaves no room for a response" },
    });
  });
});
