import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { filesystem } from "../support/real-servers.ts";
import { SdkClient } from "../support/sdk-client.ts";
import { Sidecar } from "../support/sidecar.ts";
import { TempDir } from "../support/temp-dir.ts";

describe("the filesystem server behind the sidecar", () => {
  let root: TempDir;
  let sidecar: Sidecar;
  let client: SdkClient;
  let directory: string;
  let count = 0;

  beforeAll(async () => {
    root = await TempDir.create();
    sidecar = await Sidecar.start({ command: filesystem(root.path) });
    client = await SdkClient.connect(sidecar.url);
  });

  afterAll(async () => {
    await client.close();
    await sidecar[Symbol.asyncDispose]();
    await root[Symbol.asyncDispose]();
  });

  beforeEach(async () => {
    directory = root.file(String(++count));
    await mkdir(directory);
  });

  async function callTool(name: string, args: Record<string, unknown>, by: SdkClient = client): Promise<unknown> {
    const { structuredContent } = await by.callTool({ name, arguments: args });
    return (structuredContent as { readonly content: unknown } | undefined)?.content;
  }

  it("a file is written to the disk unchanged", async () => {
    const path = join(directory, 'a "file" ünï.txt');
    const content = 'line\r\n\t"quoted" \\ \u2028 🦀\n\u0000end';
    expect(await callTool("write_file", { path, content })).toBe(`Successfully wrote to ${path}`);
    expect(await readFile(path, "utf8")).toBe(content);
  });

  it("a file is read from the disk unchanged", async () => {
    const path = join(directory, "notes.txt");
    await writeFile(path, "first\nsecond\nthird\n");
    expect(await callTool("read_text_file", { path })).toBe("first\nsecond\nthird\n");
    expect(await callTool("read_text_file", { path, head: 1 })).toBe("first");
  });

  it("a file of several megabytes is written and read completely", async () => {
    const path = join(directory, "long.txt");
    const content = "0123456789abcdé\n".repeat(200_000);
    await callTool("write_file", { path, content });
    expect(await readFile(path, "utf8")).toBe(content);
    expect(await callTool("read_text_file", { path })).toBe(content);
  });

  it("binary content is read", async () => {
    const path = join(directory, "picture.png");
    const bytes = Buffer.from(Array.from({ length: 256 }, (_, index) => index));
    await writeFile(path, bytes);
    expect(await callTool("read_media_file", { path })).toEqual([{ type: "image", mimeType: "image/png", data: bytes.toString("base64") }]);
  });

  it("files are edited, moved and listed", async () => {
    await writeFile(join(directory, "old.txt"), "one\ntwo\n");
    await callTool("edit_file", { path: join(directory, "old.txt"), edits: [{ oldText: "two", newText: "three" }] });
    await callTool("create_directory", { path: join(directory, "sub") });
    await callTool("move_file", { source: join(directory, "old.txt"), destination: join(directory, "sub", "new.txt") });

    expect(await readdir(directory, { recursive: true })).toEqual(["sub", join("sub", "new.txt")]);
    expect(await readFile(join(directory, "sub", "new.txt"), "utf8")).toBe("one\nthree\n");
    expect(await callTool("list_directory", { path: directory })).toBe("[DIR] sub");
    expect(await callTool("search_files", { path: directory, pattern: "**/*.txt" })).toBe(join(directory, "sub", "new.txt"));
  });

  it("a forbidden path is reported to the client, and no file is written", async () => {
    const path = join(root.path, "..", "outside.txt");
    const result = await client.callTool({ name: "write_file", arguments: { path, content: "x" } });
    expect(result).toEqual({
      content: [{ type: "text", text: expect.stringMatching(/^Access denied - path outside allowed directories: /) as string }],
      isError: true,
    });
    await expect(readFile(path)).rejects.toThrow("ENOENT");
  });

  it("simultaneous calls of two clients are not mixed up", async () => {
    await using other = await SdkClient.connect(sidecar.url);
    const files = Array.from({ length: 40 }, (_, index) => ({ path: join(directory, `${index}.txt`), content: `content ${index}` }));
    await Promise.all(files.map((file, index) => callTool("write_file", file, index % 2 === 0 ? client : other)));
    expect(await Promise.all(files.map(({ path }) => readFile(path, "utf8")))).toEqual(files.map(({ content }) => content));

    const read = await Promise.all(files.map(({ path }, index) => callTool("read_text_file", { path }, index % 2 === 0 ? other : client)));
    expect(read).toEqual(files.map(({ content }) => content));
  });
});
