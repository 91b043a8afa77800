import * as fc from "fast-check";
import { execFileSync } from "node:child_process";
import { chmod, mkdir, readdir, readFile, readlink, stat, symlink, truncate, writeFile } from "node:fs/promises";
import { describe, expect, it } from "vitest";
import type { JsonObject } from "../../../src/mcp/message.ts";
import { type Descriptor, formatDescriptor, readDescriptor, writeDescriptor } from "../../../src/policy/descriptor.ts";
import { descriptorOf, listedTools, nested, reviewedTool, stored, withKeysReversed } from "../../support/reviewed-tools.ts";
import { TempDir } from "../../support/temp-dir.ts";

const EMPTY_SCHEMA = { type: "object", properties: {} };
describe("a tool in a descriptor", () => {
  it("a tool keeps name, description, input schema and annotations only", () => {
    const kept = { name: "a", description: "A.", inputSchema: { type: "object", required: ["x"] }, annotations: { readOnlyHint: true } };
    const other = { title: "T", outputSchema: {}, icons: [], execution: {}, _meta: {} };
    expect(stored({ ...other, ...kept })).toStrictEqual(kept);
  });

  it.each([
    ["no members", {}],
    ["members that are null", { description: null, inputSchema: null, annotations: null }],
    ["empty members", { description: " \n", inputSchema: null, annotations: {} }],
  ])("a tool with %s gets a description and a schema", (_what, members) => {
    expect(stored({ name: "a", ...members })).toStrictEqual({ name: "a", description: "MCP tool a.", inputSchema: EMPTY_SCHEMA });
  });
});

describe("a descriptor", () => {
  it("two tools with one name are rejected", () => {
    const tools = [reviewedTool(), reviewedTool({ name: "b" }), reviewedTool()];
    expect(() => formatDescriptor(descriptorOf(tools))).toThrow('tools[0] and tools[2] have the same name, "search"');
  });
});

describe("the text of a descriptor", () => {
  it("the text is indented, ends with a newline, and has the keys of schemas sorted", () => {
    const inputSchema = { type: "object", required: ["b", "a"], properties: { b: { type: "string", enum: ["z", "y"] }, a: {} } };
    const text = formatDescriptor(descriptorOf([reviewedTool({ inputSchema })]));
    expect(text).toMatch(/^\{\n {2}"version": 2,\n/);
    expect(text).toMatch(/\n\}\n$/);
    const [tool] = (JSON.parse(text) as Descriptor).tools;
    expect(JSON.stringify(tool?.inputSchema)).toBe(
      '{"properties":{"a":{},"b":{"enum":["z","y"],"type":"string"}},"required":["b","a"],"type":"object"}',
    );
  });

  it("the text reads back, and is the same for any order of keys", () => {
    fc.assert(
      fc.property(listedTools, (tools) => {
        const text = formatDescriptor(descriptorOf(tools.map(stored)));
        // -0 is written as 0.
        expect(JSON.parse(text)).toEqual(JSON.parse(JSON.stringify(descriptorOf(tools.map(stored)))));
        const reversed = tools.map((tool) => stored(withKeysReversed(tool) as JsonObject));
        expect(formatDescriptor(descriptorOf(reversed))).toBe(text);
        expect(formatDescriptor(JSON.parse(text) as Descriptor)).toBe(text);
      }),
    );
  });

  it("invisible characters and terminal commands are escaped", () => {
    const description = "a\u009B2Jb\u202Ec\u200Bd\u{E0041}\u2028é😀";
    const text = formatDescriptor(descriptorOf([{ name: "a", description, inputSchema: EMPTY_SCHEMA }]));
    expect(text).toContain(String.raw`"a\u009b2Jb\u202ec\u200bd\udb40\udc41\u2028é😀"`);
    expect(JSON.parse(text)).toMatchObject({ tools: [{ description }] });
  });
});

describe("the size of a descriptor", () => {
  function expectExactLimit(tools: readonly JsonObject[]): void {
    const descriptor = descriptorOf(tools.map(stored));
    const text = formatDescriptor(descriptor);
    const bytes = Buffer.byteLength(text);
    expect(formatDescriptor(descriptor, bytes)).toBe(text);
    expect(() => formatDescriptor(descriptor, bytes - 1)).toThrow(`the descriptor would be longer than ${bytes - 1} bytes`);
  }

  it("a descriptor is written up to exactly the limit", () => {
    fc.assert(fc.property(listedTools, expectExactLimit));
    const values = Array.from({ length: 1000 }, (_, index) => index);
    const dense = [values.map(() => 0), values.map(() => ({})), Object.fromEntries(values.map((value) => [value, 0]))];
    for (const each of dense) expectExactLimit([{ name: "dense", inputSchema: { each } }]);
  });

  it.each<[string, object]>([
    ["many members", Object.fromEntries(Array.from({ length: 800_000 }, (_, key) => [1_000_000 + key, 0]))],
    ["escapes of invisible characters", ["\u200B".repeat(3_000_000)]],
  ])("a schema with %s is rejected", (_what, schema) => {
    const descriptor = descriptorOf([reviewedTool({ inputSchema: { schema } })]);
    expect(() => formatDescriptor(descriptor)).toThrow("the descriptor would be longer than 16777216 bytes");
  });
});

async function readError(content: string | Uint8Array): Promise<string> {
  await using directory = await TempDir.create();
  const path = directory.file("a.json");
  await writeFile(path, content);
  return errorOf(path);
}

function errorOf(path: string): string {
  try {
    readDescriptor(path);
  } catch (error) {
    const { name, message } = error as Error;
    const prefix = `${path}: `;
    return name === "DescriptorError" && message.startsWith(prefix) ? message.slice(prefix.length) : `unnamed: ${message}`;
  }
  throw new Error("it was read");
}

describe("reading a descriptor", () => {
  it("a descriptor written by hand may have unknown members", async () => {
    await using directory = await TempDir.create();
    const path = directory.file("a.json");
    const tool = {
      name: " search ",
      description: " Searches.\n",
      inputSchema: {},
      http: { method: "GET" },
      annotations: { readOnly: true, own: [1] },
    };
    const content = { version: 2, tools: [tool, { name: "bare" }], auth: { type: "bearer" }, feeds: [], mcp: { path: "/mcp" } };
    await writeFile(path, `\ufeff${JSON.stringify(content)}`);
    expect(readDescriptor(path)).toStrictEqual({
      version: 2,
      mcp: { path: "/mcp" },
      tools: [
        { name: "search", description: "Searches.", inputSchema: { type: "object" }, annotations: { readOnly: true, own: [1] } },
        { name: "bare", description: "MCP tool bare.", inputSchema: { type: "object", properties: {} } },
      ],
    });
  });

  it.each([
    ["", "is not JSON"],
    ['{\n  "version": 2,\n}', "is not JSON: line 3, column 1"],
    ["[]", "is not a descriptor: not a JSON object"],
    ['{"tools":[]}', "`version` is missing; only version 2 is known"],
    ['{"version":1}', "`version` is 1; only version 2 is known"],
    ['{"version":"hunter2"}', "`version` is of type string; only version 2 is known"],
    ['{"version":2,"tools":{"hunter2":{}}}', "`tools` is of type object; it must be an array"],
    ['{"version":2,"tools":null}', "`tools` is null; it must be an array"],
    ['{"version":2,"tools":[{"name":"a"},"b"]}', "tools[1] is of type string; it must be an object"],
    ['{"version":2,"tools":[{"name":" "}]}', "tools[0] has no `name`"],
    ['{"version":2,"tools":[{"name":"a","description":7}]}', 'tools[0], "a": `description` is 7; it must be a string'],
    ['{"version":2,"tools":[{"name":"a","inputSchema":[]}]}', 'tools[0], "a": `inputSchema` is an array; it must be an object'],
    ['{"version":2,"tools":[{"name":"a","annotations":true}]}', 'tools[0], "a": `annotations` is true; it must be an object'],
    [
      `{"version":2,"tools":[{"name":"a","inputSchema":${JSON.stringify(nested(500))}}]}`,
      'tools[0], "a": its schema or annotations have too many levels, or a number that is too large',
    ],
    [
      '{"version":2,"tools":[{"name":"a","inputSchema":{"maximum":1e999}}]}',
      'tools[0], "a": its schema or annotations have too many levels, or a number that is too large',
    ],
    ['{"version":2,"tools":[{"name":"a"},{"name":"b"},{"name":"a "}]}', 'tools[0] and tools[2] have the same name, "a"'],
    [Uint8Array.of(0x7b, 0xff, 0x7d), "is not UTF-8"],
  ])("the descriptor %s is rejected with the reason, which does not quote it", async (content, reason) => {
    expect(await readError(content)).toBe(reason);
  });

  it("a missing file, or one without an end, is rejected", async () => {
    await using directory = await TempDir.create();
    expect(errorOf(directory.file("none.json"))).toBe("does not exist");
    expect(errorOf(directory.path)).toBe("is not a regular file");
    execFileSync("mkfifo", [directory.file("pipe")]);
    expect(errorOf(directory.file("pipe"))).toBe("is not a regular file");
    expect(errorOf("/dev/zero")).toBe("is not a regular file");
    await writeFile(directory.file("large"), "");
    await truncate(directory.file("large"), 16 * 1024 * 1024 + 1);
    expect(errorOf(directory.file("large"))).toBe("has 16777217 bytes; at most 16777216 are read");
  });
});

describe("writing a descriptor", () => {
  it("the directory is created, and only the file is left in it", async () => {
    await using directory = await TempDir.create();
    const path = directory.file(".claw-discovered/deeper/a.json");
    writeDescriptor(path, "{}\n");
    expect(await readFile(path, "utf8")).toBe("{}\n");
    expect(await readdir(directory.file(".claw-discovered/deeper"))).toEqual(["a.json"]);
  });

  it("the mode of the replaced file is kept", async () => {
    await using directory = await TempDir.create();
    const path = directory.file("a.json");
    await writeFile(path, "old");
    for (const mode of [0o600, 0o664]) {
      await chmod(path, mode);
      writeDescriptor(path, `${mode}`);
      expect([await readFile(path, "utf8"), (await stat(path)).mode & 0o7777]).toEqual([`${mode}`, mode]);
    }
  });

  it("a symbolic link is followed and stays a link", async () => {
    await using directory = await TempDir.create();
    await mkdir(directory.file("real"));
    await writeFile(directory.file("real/a.json"), "old");
    await symlink("real/a.json", directory.file("link.json"));
    writeDescriptor(directory.file("link.json"), "new");
    expect(await readlink(directory.file("link.json"))).toBe("real/a.json");
    expect(await readFile(directory.file("real/a.json"), "utf8")).toBe("new");
  });

  it("a file that cannot be written is named, and nothing is left behind", async () => {
    await using directory = await TempDir.create();
    await writeFile(directory.file("file"), "");
    expect(() => writeDescriptor(directory.file("file/a.json"), "{}")).toThrow(`${directory.file("file/a.json")}: EEXIST`);
    expect(() => writeDescriptor(directory.path, "{}")).toThrow(`${directory.path}: is not a regular file`);
    expect(() => writeDescriptor("/dev/null", "{}")).toThrow("/dev/null: is not a regular file");
    expect(await readdir(directory.path)).toEqual(["file"]);
  });
});
