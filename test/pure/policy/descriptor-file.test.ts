import { execFileSync } from "node:child_process";
import { chmod, mkdir, readdir, readFile, readlink, stat, symlink, truncate, writeFile } from "node:fs/promises";
import { describe, expect, it } from "vitest";
import { readDescriptor, writeDescriptor } from "../../../src/policy/descriptor.ts";
import { TempDir } from "../../support/temp-dir.ts";
import { nested } from "../../support/reviewed-tools.ts";

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
