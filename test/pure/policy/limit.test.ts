import { execFileSync } from "node:child_process";
import { CallToolResultSchema, CreateTaskResultSchema, JSONRPCErrorSchema } from "@modelcontextprotocol/sdk/types.js";
import { describe, expect, it } from "vitest";
import { limitBody } from "../../../src/policy/result-limit/limit.ts";

interface TextItem {
  readonly type: string;
  readonly text: string;
}
interface Answer {
  readonly id?: unknown;
  readonly result: { readonly content: TextItem[]; readonly [name: string]: unknown };
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

function sizesIn(answer: Answer): unknown {
  return answer.result["_meta"];
}

describe("limitBody", () => {
  it("the marks are present even if `_meta` has a million other members", () => {
    const text = `{"jsonrpc":"2.0","id":2,"result":{"content":[],"_meta":{${'"a":1,'.repeat(1_000_000)}"b":2}}}`;
    expect(sizesIn(limit(text, 1000))).toMatchObject({ truncated: true, originalBytes: text.length });
  });

  it.each(["result", "envelope"])("too many members of the %s, which may hide isError, cause an error result", (place) => {
    const members = '"a":1,'.repeat(1_000_000);
    const text =
      place === "result"
        ? `{"jsonrpc":"2.0","id":2,"result":{"content":[],${members}"isError":true}}`
        : `{${members}"jsonrpc":"2.0","id":2,"result":{"content":[],"isError":true}}`;
    const answer = JSON.parse(limitBody(text, 1000, "2") ?? "") as Answer;
    expect([answer.id, answer.result["isError"]]).toEqual([2, true]);
    expect(sizesIn(answer)).toMatchObject({ truncated: true, originalBytes: text.length });
  });

  it("isError is kept after an item with more members than are read", () => {
    const item = `{"type":"text","text":"no",${'"a":1,'.repeat(1_000_000)}"b":2}`;
    const text = `{"jsonrpc":"2.0","id":2,"result":{"content":[${item}],"isError":true}}`;
    expect(limit(text, 1000).result["isError"]).toBe(true);
  });

  it("a task whose id is not read becomes an error result", () => {
    const text = `{"jsonrpc":"2.0","id":2,"result":{"task":{${'"a":1,'.repeat(1_000_000)}"taskId":"t"}}}`;
    expect(limit(text, 1000).result).toMatchObject({ isError: true, _meta: { truncated: true } });
  });

  it("only the items of the last of many content members are counted", () => {
    const text = `{"jsonrpc":"2.0","id":2,"result":{${'"content":[0,0,0],'.repeat(50_000)}"content":[1]}}`;
    expect(limit(text, 1000).result.content.at(-1)?.text).toMatch(/^\[omitted: 1 of 1 items; /);
  });

  it("items that are not read are counted, of any type", () => {
    const items = ["{}", "[1,[2,3]]", String.raw`"a,b]\\"`, "1", '{"a":[1,2],"}":{}}'];
    const list = Array.from({ length: 200_000 }, (_, index) => items[index % items.length]);
    const text = `{"jsonrpc":"2.0","id":2,"result":{"content":[${list.join(" , ")} ],"isError":true}}`;
    JSON.parse(text);
    const answer = limit(text, 400);
    expect(answer.result.content.at(-1)?.text).toMatch(/ of 200000 items; /);
    expect(answer.result["isError"]).toBe(true);
  });

  it("a result as long as the limit is unchanged", () => {
    const text = body(texts("é".repeat(1000)));
    expect(limitBody(text, Buffer.byteLength(text))).toBeUndefined();
    expect(limitBody(text, Buffer.byteLength(text) - 1)).toBeDefined();
  });

  it("a long text is truncated, with a note on its last line and in _meta", () => {
    const text = body(texts("a".repeat(20_000)));
    const limited = limitBody(text, 16_384) ?? "";
    const keptBytes = Buffer.byteLength(limited);
    const { result, id } = JSON.parse(limited) as Answer;
    expect(keptBytes).toBeGreaterThan(16_384 * 0.99);
    expect(id).toBe(2);
    const [, kept = "", omitted] =
      /^(a+)\n\[truncated: (\d+) of 20000 bytes omitted; ask for less at a time\]$/.exec(result.content[0]?.text ?? "") ?? [];
    expect(Number(omitted)).toBe(20_000 - kept.length);
    expect(result["_meta"]).toEqual({ truncated: true, originalBytes: text.length, keptBytes });
    expect(CallToolResultSchema.safeParse(result).success).toBe(true);
  });

  it("sizes are bytes of JSON, not characters", () => {
    for (const character of ['"', "\u0000", "é", "日", "😀", "\ud800"]) {
      const { result } = limit(body(texts(character.repeat(10_000))), 4096);
      const [kept = ""] = result.content[0]?.text.split("\n[truncated") ?? [];
      expect(character.repeat(10_000).startsWith(kept)).toBe(true);
      expect(Buffer.byteLength(JSON.stringify(kept))).toBeGreaterThan(4096 * 0.9);
    }
  });

  it("the spelling of kept numbers, escapes and ids is unchanged", () => {
    const structured = String.raw`{"big":9007199254740993,"small":1.0,"esc":"\u0041\/"}`;
    const image = `{"type":"image","mimeType":"image/png","data":"${"A".repeat(30_000)}"}`;
    const text = `{"id":1.0,"jsonrpc":"2.0","result":{"content":[{"type":"text","text":"\\u0041\\/"},${image}],"x-own":1e400,"structuredContent":${structured},"isError":true}}`;
    const limited = limitBody(text, 4096) ?? "";
    expect(limited).toContain(`"structuredContent":${structured}`);
    expect(limited).toContain(String.raw`{"type":"text","text":"\u0041\/"}`);
    expect(limited).toContain('"id":1.0,');
    expect(limited).toContain('"x-own":1e400');
    expect(limited).toContain('"isError":true');
  });

  it("structuredContent is omitted if it does not fit beside the text", () => {
    const data = { rows: "r".repeat(3000) };
    const { result } = limit(body({ ...texts(JSON.stringify(data)), structuredContent: data }), 4096);
    expect(result["structuredContent"]).toBeUndefined();
    expect(JSON.parse(result.content[0]?.text ?? "")).toEqual(data);
    expect(result.content[1]?.text).toBe("[omitted: structuredContent of 3011 bytes; ask for less at a time]");
  });

  it("structuredContent is kept with its spelling if it fits beside the content", () => {
    const image = JSON.stringify({ type: "image", mimeType: "image/png", data: "d".repeat(5000) });
    const text = `{"jsonrpc":"2.0","id":2,"result":{"structuredContent" : {"n": 1.0},"content":[${image}]}}`;
    expect(limitBody(text, 1024)).toContain(',"structuredContent" : {"n": 1.0},"_meta"');
  });

  it("a note with type, name and size replaces a non-text item that does not fit", () => {
    const data = Buffer.alloc(30_000).toString("base64");
    const items = [
      { type: "image", mimeType: "image/png", data },
      { type: "image", mimeType: "image/gif", data: Buffer.alloc(20).toString("base64") },
      { type: "audio", mimeType: "audio/wav", data },
      { type: "resource", resource: { uri: "file:///a.bin", mimeType: "application/zip", blob: data } },
      { type: "resource", resource: { uri: "file:///a.txt", text: "é".repeat(10_000) } },
      { type: "resource_link", uri: "file:///b", name: "b", description: "d".repeat(9000) },
    ];
    const { result } = limit(body({ content: items }), 2048);
    expect(result.content.slice(0, 6)).toEqual([
      { type: "text", text: "[omitted: image, image/png, 40049 bytes]" },
      items[1],
      { type: "text", text: "[omitted: audio, audio/wav, 40049 bytes]" },
      { type: "text", text: "[omitted: resource, file:///a.bin, application/zip, 40093 bytes]" },
      { type: "text", text: "[omitted: resource, file:///a.txt, 20064 bytes]" },
      { type: "text", text: "[omitted: resource_link, file:///b, 9070 bytes]" },
    ]);
  });

  it("a note decodes a media type and omits a name that is too long", () => {
    const uri = `file:///${"u".repeat(300)}`;
    const text = `{"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"image","mimeType":"image\\/png","uri":"${uri}","data":"${"A".repeat(2000)}"}]}}`;
    expect(limit(text, 1024).result.content[0]?.text).toMatch(/^\[omitted: image, image\/png, \d+ bytes\]$/);
  });

  it("small texts are kept beside a long one, which is truncated", () => {
    const { result } = limit(body(texts("first", "l".repeat(50_000), "last")), 4096);
    const [first, long, last] = result.content;
    expect(first?.text).toBe("first");
    expect(long?.text).toMatch(/^l{3000,}\n\[truncated: \d+ of 50000 bytes omitted; ask for less at a time\]$/);
    expect(last?.text).toBe("last");
    expect(result.content).toHaveLength(3);
  });

  it("the first of several long texts gets the most room, and each gets some", () => {
    const { result } = limit(body(texts("a".repeat(3000), "b".repeat(3000), "c".repeat(3000))), 4096);
    const [a, b, c] = result.content.map(({ text }) => text);
    expect(a).toBe("a".repeat(3000));
    expect(b).toMatch(/^b{40,}\n\[truncated: .*\]$/);
    expect(c).toMatch(/^c{40,}\n\[truncated: .*\]$/);
  });

  it("items at the end are omitted if there are too many, and are counted", () => {
    const all = Array.from({ length: 5000 }, (_, index) => `line ${index}`);
    const { result } = limit(body(texts(...all)), 16_384);
    const kept = result.content.slice(0, -1).map(({ text }) => text);
    expect(kept).toEqual(all.slice(0, kept.length));
    expect(kept.length).toBeGreaterThan(300);
    expect(result.content.at(-1)?.text).toBe(`[omitted: ${5000 - kept.length} of 5000 items; ask for less at a time]`);
  });

  it("a text gets room before an image that precedes it", () => {
    const image = { type: "image", mimeType: "image/png", data: "d".repeat(1500) };
    const text = { type: "text", text: "t".repeat(1500) };
    const { result } = limit(body({ content: [image, text] }), 2048);
    expect(result.content).toEqual([{ type: "text", text: expect.stringMatching(/^\[omitted: image, /) as string }, text]);
  });

  it("long annotations of a truncated text are omitted", () => {
    const item = { type: "text", annotations: { audience: "a".repeat(500) }, text: "t".repeat(1500) };
    const [kept] = limit(body({ content: [item] }), 1024).result.content;
    expect(kept).toEqual({ type: "text", text: expect.stringMatching(/^t{700,}\n\[truncated: /) as string });
  });

  it("unknown members of the result and of _meta are kept if they are small", () => {
    const related = { "io.modelcontextprotocol/related-task": { taskId: "t" } };
    const text = body({ ...texts("a".repeat(9000)), small: 1, big: "b".repeat(5000), _meta: { ...related, large: "l".repeat(5000) } });
    const { result } = limit(text, 4096);
    expect(result["small"]).toBe(1);
    expect(result["big"]).toBeUndefined();
    expect(result["_meta"]).toEqual({ ...related, truncated: true, originalBytes: text.length, keptBytes: expect.any(Number) as number });
  });

  it("short annotations of a truncated text are kept", () => {
    const annotations = { audience: ["user"], priority: 0.5 };
    const { result } = limit(body({ content: [{ type: "text", annotations, text: "a".repeat(9000) }] }), 4096);
    expect(result.content[0]).toMatchObject({ type: "text", annotations });
  });

  it("a result that is too long only because of white space keeps all its content", () => {
    const text = `{"jsonrpc":"2.0","id":2,"result":{"content":[${" ".repeat(2000)}{"type":"text","text":"a"}]}}`;
    expect(limit(text, 1024).result).toMatchObject({ ...texts("a"), _meta: { truncated: true } });
  });

  it("the last of several members with the same name counts, as in JSON.parse", () => {
    const long = JSON.stringify("a".repeat(5000));
    const text = `{"jsonrpc":"2.0","id":1,"id":2,"result":7,"result":{"content":3,"content":[{"type":"text","text":"x","text":${long}}]}}`;
    const { result, id } = limit(text, 1024);
    expect(id).toBe(2);
    expect(result.content[0]?.text).toMatch(/^a{600,}\n\[truncated/);
  });

  it("a result with structuredContent alone is marked when that is omitted", () => {
    const { result } = limit(body({ structuredContent: { rows: "r".repeat(9000) } }), 1024);
    expect(result.content).toEqual([{ type: "text", text: "[omitted: structuredContent of 9011 bytes; ask for less at a time]" }]);
    expect(sizesIn({ result } as Answer)).toMatchObject({ truncated: true });
  });

  it("an error keeps its code and loses its data, and its message is truncated", () => {
    const error = { code: -32_042, message: "m".repeat(5000), data: { more: "d".repeat(5000) } };
    const answer = limit(JSON.stringify({ jsonrpc: "2.0", id: "a", error }), 1024);
    expect(answer.error.code).toBe(-32_042);
    expect(answer.error.message).toMatch(/^m{700,}\n\[truncated: .*\]$/);
    expect(answer.error.data).toMatchObject({ truncated: true });
    expect(JSONRPCErrorSchema.safeParse(answer).success).toBe(true);
  });

  it("a short message of an error is kept if its data is too long", () => {
    const error = { code: 1, message: "short", data: "d".repeat(5000) };
    expect(limit(JSON.stringify({ jsonrpc: "2.0", id: 1, error }), 1024).error).toEqual({
      code: 1,
      message: "short",
      data: { truncated: true, originalBytes: expect.any(Number) as number, keptBytes: expect.any(Number) as number },
    });
  });

  it("a task keeps the members that its client needs to get its result", () => {
    const at = "2026-11-21T00:00:00Z";
    const task = { taskId: "t-1", status: "working", statusMessage: "s".repeat(9000), createdAt: at, lastUpdatedAt: at, ttl: 60_000 };
    const { result } = limit(body({ task, _meta: { a: 1 } }), 1024);
    const { statusMessage: _, ...needed } = task;
    expect(result["task"]).toEqual(needed);
    expect(result["_meta"]).toMatchObject({ a: 1, truncated: true });
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

  it("the content of an earlier result or content member is ignored", () => {
    const items = JSON.stringify(texts("a".repeat(2000))).slice(1, -1);
    for (const end of ['"content":"x"}}', '"x":1},"result":{"content":1}}', '"x":1},"result":"x"}']) {
      const text = `{"jsonrpc":"2.0","id":2,"result":{${items},${end}`;
      expect(limit(text, 1024).result).toMatchObject({
        isError: true,
        content: [{ text: expect.stringContaining("not a tool result") as string }],
      });
    }
  });

  it("a long id leaves less room for the result, and is kept", () => {
    for (const length of [700, 800, 900]) {
      const answer = limit(JSON.stringify({ jsonrpc: "2.0", id: "i".repeat(length), result: texts("a".repeat(2000)) }), 1024);
      expect(answer.id).toBe("i".repeat(length));
      expect(CallToolResultSchema.parse(answer.result)).toMatchObject({ _meta: { truncated: true } });
    }
  });

  it("an id that leaves no room is omitted", () => {
    const answer = limit(JSON.stringify({ jsonrpc: "2.0", id: "i".repeat(2000), result: texts("a") }), 1024);
    expect(answer).not.toHaveProperty("id");
    expect(answer.error.code).toBe(-32_603);
  });

  it("the shortest result with its id is returned if nothing fits", () => {
    const text = limitBody(body(texts("a".repeat(2000))), 10) ?? "";
    expect(text.length).toBeLessThan(100);
    expect(JSON.parse(text)).toEqual({ jsonrpc: "2.0", id: 2, result: { content: [], _meta: { truncated: true } } });
  });

  it("sizes are correct with any number of digits", () => {
    for (let length = 900; length < 1300; length++) {
      const text = body(texts("a".repeat(length)));
      const limited = limitBody(text, 1024);
      if (limited === undefined) continue;
      const { result } = JSON.parse(limited) as Answer;
      expect(result["_meta"]).toEqual({ truncated: true, originalBytes: text.length, keptBytes: limited.length });
      const [kept = "", line] = result.content[0]?.text.split("\n") ?? [];
      expect(line).toBe(`[truncated: ${length - kept.length} of ${length} bytes omitted; ask for less at a time]`);
    }
  });

  it("limiting 10 MB of any content takes about as long as parsing it", () => {
    const { limitMs, parseMs } = measure(`
      const texts = (text) => ({ content: [{ type: "text", text }] });
      const rows = Array.from({ length: 300_000 }, (_, id) => ({ id, name: "n" + id }));
      const all = [texts("x".repeat(1e7)), texts("日".repeat(1e7)), texts(JSON.stringify(rows)), { content: [], structuredContent: { rows } }];
      const bodies = all.map((result) => JSON.stringify({ jsonrpc: "2.0", id: 2, result }));
      const leastMs = (run) => Math.min(...[1, 2, 3].map(() => cpuMsOf(() => bodies.forEach(run))));
      const limitMs = leastMs((text) => limitBody(text, 16_384));
      const parseMs = leastMs((text) => void JSON.parse(text));
      process.stdout.write(JSON.stringify({ limitMs, parseMs }));
    `);
    expect(limitMs).toBeLessThan(parseMs * 1.5);
  });
});

/** Runs a script in Node itself. In Vitest, each use of an import is a property access, which would distort the measurement. */
function measure(script: string): { readonly limitMs: number; readonly parseMs: number } {
  const imported = [
    ["limitBody", "../../../src/policy/result-limit/limit.ts"],
    ["cpuMsOf", "../../support/cpu-time.ts"],
  ].map(([name, path = ""]) => `import { ${name} } from ${JSON.stringify(new URL(path, import.meta.url).href)};`);
  const printed = execFileSync(process.execPath, ["--input-type=module", "--eval", imported.join("") + script], { encoding: "utf8" });
  return JSON.parse(printed) as ReturnType<typeof measure>;
}
