import { chmod, readFile, writeFile } from "node:fs/promises";
import { assert, json, nat, property } from "fast-check";
import { describe, expect, it } from "vitest";
import { cpuMsOf } from "../../../test/support/cpu-time.ts";
import { SEED } from "../../../test/support/set-up.ts";
import { TempDir } from "../../../test/support/temp-dir.ts";
import { Adb, deadline } from "../src/adb.ts";
import { readAnswer } from "../src/bundle.ts";
import { readManifest } from "../src/manifest.ts";
import { cleanLine } from "../src/text.ts";
import { readToolList } from "../src/tool-list.ts";
import { prefixesOf, toolName } from "../src/tool-names.ts";
import { AdbDevice } from "../stand-in/adb-protocol.ts";
import { Injection, splitCommands } from "../stand-in/shell.ts";

const MANIFEST = new URL("../stand-in/apps/hostile.axml", import.meta.url);

describe("readAnswer", () => {
  it.each([
    ['Bundle[{status=success, data={"a":"}]"}}]', { data: '{"a":"}]"}' }],
    ['Bundle[{status=success, data={"a":", error_code=X}]"}, later=1, other={x}}]', { data: '{"a":", error_code=X}]"}' }],
    ["Bundle[{status=success, data=[1,\n 2]}]", { data: "[1,\n 2]" }],
    ["Bundle[{status=success, data=}]", { data: "" }],
    ["Bundle[{status=success, data=text, more text}]", { data: "text, more text" }],
    ['Bundle[{status=success, data="a, \\", b", later=1}]', { data: '"a, \\", b"', value: 'a, ", b' }],
    ['Bundle[{status=success, data={"a":[1, 2}]', { data: '{"a":[1, 2', value: undefined }],
    ['Bundle[{before=1, status=success, data="status=error"}]', { data: '"status=error"' }],
    ["Bundle[{error_message=a, b=c, status=error, error_code=RATE_LIMITED}]", { code: "RATE_LIMITED", message: "a, b=c" }],
    [
      "Bundle[{error_message=x, status=success, data={}, status=error, error_code=X}]",
      { code: "X", message: "x, status=success, data={}" },
    ],
    ["Bundle[{status=error, error_code=X}]", { code: "X", message: "" }],
    ["Bundle[{status=error}]", { code: "", message: "" }],
    [
      "Bundle[{error_message=m, resolution_hint=h, i, authorize_intent=a.b.C, status=error, error_code=AUTH_REQUIRED}]",
      { code: "AUTH_REQUIRED", message: "m", hint: "h, i", intent: "a.b.C" },
    ],
  ])("%j is read in spite of missing escapes", (bundle, expected) => {
    expect(readAnswer(`* a line of adb\nResult: ${bundle}\n\n`)).toMatchObject(expected);
  });

  it.each(["", "Result: null", "Result: Bundle[EMPTY_PARCEL]", "Result: Bundle[mParcelledData.dataSize=100]", "Result: Bundle[{}]"])(
    "%j is not an answer",
    (output) => expect(readAnswer(output)).toBeUndefined(),
  );

  it("data with so many values that their parsing would hold up other calls stay text", () => {
    const keys = Array.from({ length: 100_000 }, (_, index) => `"${index}":0`);
    for (const data of [`{${keys.join()}}`, `[${"[],".repeat(60_000)}[]]`])
      expect(readAnswer(`Result: Bundle[{status=success, data=${data}}]`)).toEqual({ status: "success", data, value: undefined });
    const few = `[${"[],".repeat(40_000)}"[,"]`;
    expect(readAnswer(`Result: Bundle[{status=success, data=${few}}]`)).toHaveProperty("value", JSON.parse(few));
  });

  it("all data in JSON come back as they were", () => {
    assert(
      property(json(), (data) => {
        expect(readAnswer(`Result: Bundle[{status=success, data=${data}}]\n`)).toEqual({
          status: "success",
          data,
          value: JSON.parse(data) as unknown,
        });
      }),
      { seed: SEED },
    );
  });
});

describe("Adb", () => {
  it("words reach a shell as they are", async () => {
    await using folder = await TempDir.create();
    await writeFile(folder.file("adb"), '#!/bin/sh\nexec sh -c "$2"\n');
    await chmod(folder.file("adb"), 0o755);
    const adb = new Adb(folder.file("adb"));
    const words = ["'; echo executed; '", "$(echo executed)", "`echo executed`", "a\n\nb", '"', "\\", "'", "''", "", "*", "~", "é😀", "-n"];
    const output = await adb.shell([["printf", "[%s]", ...words]], deadline(120_000));
    expect(output).toBe(`${words.map((word) => `[${word}]`).join("")}\n`);
    await expect(adb.shell([["printf", "a\0b"]], deadline(120_000))).rejects.toThrow("NUL");
  });

  it("the shell of the stand-in reports each command that is not quoted", () => {
    for (const line of ["a $(b)", "a `b`", "a & b", "a | b", "a > b", 'a "$b"', "a 'b"])
      expect(() => splitCommands(line)).toThrow(Injection);
    expect(splitCommands(String.raw`a 'b;$(c)' ; d\ e ''`)).toEqual([
      ["a", "b;$(c)"],
      ["d e", ""],
    ]);
  });
});

it("the stand-in ends the connection of an HTTP request", async () => {
  const device = new AdbDevice(() => ({}));
  const port = await device.listen(0, "127.0.0.1");
  await expect(fetch(`http://127.0.0.1:${port}/`)).rejects.toThrow("fetch failed");
  await device.close();
});

/** As a length, it says that a thousand characters follow. */
const A_THOUSAND = String.fromCodePoint(1000);

describe("readManifest", () => {
  it("a damaged manifest is an error, never a loop or a crash", async () => {
    const manifest = await readFile(MANIFEST);
    assert(
      property(nat(manifest.length - 1), nat(255), nat(manifest.length), (at, byte, length) => {
        const damaged = Buffer.from(manifest.subarray(0, Math.max(length, at + 1)));
        damaged[at] = byte;
        expect(outcomeOf(() => readManifest(damaged))).toMatch(/^(?:read|RangeError)$/);
      }),
      { seed: SEED, numRuns: 2000 },
    );
  });

  it("a long text that many elements have is read once, and overlapping texts are rejected", () => {
    const [plain, long] = [manifestOf("a", 0), manifestOf(";".repeat(1000), 0)];
    const plainMs = cpuMsOf(() => readManifest(plain));
    expect(cpuMsOf(() => readManifest(long))).toBeLessThan(10 * plainMs);
    expect(() => readManifest(manifestOf(A_THOUSAND.repeat(11_000), 2))).toThrow("texts overlap");
  });
});

/** A compiled manifest with 10,000 providers that have the same text as authorities, or each one that begins so much later in the pool. */
function manifestOf(text: string, offset: number): Buffer {
  const PROVIDERS = 10_000;
  const texts = ["manifest", "application", "provider", text];
  const pooled = texts.map((each) => Buffer.concat([words16(each.length), Buffer.from(each, "utf16le")]));
  const starts = pooled.map((_, index) => Buffer.concat(pooled.slice(0, index)).length);
  const offsets = [...starts, ...Array.from({ length: PROVIDERS }, (_, index) => (starts[3] ?? 0) + offset * index)];
  const strings = chunk(0x0001, 28, words32(offsets.length, 0, 0, 28 + 4 * offsets.length, 0), words32(...offsets), ...pooled);
  const element = (name: number, ...attributes: readonly Buffer[]): Buffer =>
    chunk(0x0102, 16, words32(0, 0, 0, name), words16(20, 20, attributes.length, 0, 0, 0), ...attributes);
  const providers = Array.from({ length: PROVIDERS }, (_, index) => [
    element(2, words32(0, 0, 0, 0x03000000, offset === 0 ? 3 : 4 + index)),
    chunk(0x0103, 16, words32(0, 0)),
  ]);
  return chunk(0x0003, 8, strings, chunk(0x0180, 8, words32(0x01010018)), element(0), element(1), ...providers.flat());
}

function chunk(type: number, headBytes: number, ...parts: readonly Buffer[]): Buffer {
  const content = Buffer.concat(parts);
  const padding = Buffer.alloc((4 - (content.length % 4)) % 4);
  return Buffer.concat([words16(type, headBytes), words32(8 + content.length + padding.length), content, padding]);
}

function words16(...values: readonly number[]): Buffer {
  return Buffer.from(Uint16Array.from(values).buffer);
}

function words32(...values: readonly number[]): Buffer {
  return Buffer.from(Uint32Array.from(values).buffer);
}

describe("names", () => {
  it("no label takes the prefix of another app", () => {
    const hashed = [...prefixesOf(new Map([["a", "One"], ["b", "one"]])).values()]; // prettier-ignore
    const labels = new Map([["a", "One"], ["b", "one"], ["c", hashed[0] ?? ""], ["d", "__ One__two"], ["e", "√"]]); // prettier-ignore
    const prefixes = [...prefixesOf(labels).values()];
    expect(new Set(prefixes.map((each) => each.toLowerCase())).size).toBe(5);
    expect(prefixes.filter((each) => each.includes("__"))).toEqual([]);
    expect(prefixes.slice(3)).toEqual(["One_two", "app"]);
  });

  it("long and strange names of tools stay distinct within 64 characters", () => {
    const names = ["a b", "a_b", "a.b", "x".repeat(128), "x".repeat(127)].map((name) => toolName("App", name));
    expect(new Set(names).size).toBe(5);
    expect(names.filter((name) => !/^App__[\w-]{1,59}$/.test(name))).toEqual([]);
    expect(names[1]).toBe("App__a_b");
  });

  it("invisible characters and half characters are in no name and no line", () => {
    const tools = ["a\u{E0101}", "a\u3164", "a\uD800", "a"].map((name) => ({ name, description: `${name}b` }));
    expect(readToolList({ tools }).tools).toEqual([{ name: "a", description: "ab", parameters: { type: "object" } }]);
    expect(cleanLine("a\u{E0101}b\u3164c\uD800d", 100)).toBe("a b c d");
  });

  it.each([undefined, {}, { tools: {} }, [], { tools: Array(65).fill(1) }])("a list %.20j is rejected", (data) => {
    expect(() => readToolList(data)).toThrow(/^the list /);
  });
});

function outcomeOf(read: () => unknown): string {
  try {
    read();
    return "read";
  } catch (error) {
    return (error as Error).name;
  }
}
