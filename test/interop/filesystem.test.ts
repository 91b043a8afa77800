import { readdir, readFile, writeFile } from "node:fs/promises";
import { describe, expect, it } from "vitest";
import { disposeAfterAll } from "../support/dispose-after-all.ts";
import { filesystem } from "../support/real-servers.ts";
import { SdkClient } from "../support/sdk-client.ts";
import { Sidecar } from "../support/sidecar.ts";
import { TempDir } from "../support/temp-dir.ts";

describe("the filesystem server behind the sidecar", async () => {
  const root = disposeAfterAll(await TempDir.create());
  const command = filesystem(root.path);
  const sidecar = disposeAfterAll(await Sidecar.start({ command }));
  const client = disposeAfterAll(await SdkClient.connect(sidecar.url));

  it.each([
    { what: "odd characters", name: 'a "file" ünï.txt', content: 'line\r\n\t"quoted" \\ \u2028 🦀\n\u0000end' },
    { what: "several megabytes", name: "long.txt", content: "0123456789abcdé\n".repeat(200_000) },
  ])("a file with $what is written to the disk and read unchanged", async ({ name, content }) => {
    const path = root.file(name);
    const written = await client.callTool({ name: "write_file", arguments: { path, content } });
    expect(written.structuredContent).toEqual({ content: `Successfully wrote to ${path}` });
    expect(await readFile(path, "utf8")).toBe(content);
    const read = await client.callTool({ name: "read_text_file", arguments: { path } });
    expect((read.structuredContent as { content: string }).content === content).toBe(true);
  });

  it("in read-only mode, files can be read, and not written", async () => {
    await using directory = await TempDir.create();
    const kept = directory.file("kept.txt");
    await writeFile(kept, "kept");
    await using restricted = await Sidecar.start({ command: filesystem(directory.path), flags: ["--read-only"] });
    await using reader = await SdkClient.connect(restricted.url);
    const { tools } = await reader.listTools();
    expect(tools.every(({ annotations }) => annotations?.readOnlyHint === true)).toBe(true);
    expect(await reader.callTool({ name: "read_text_file", arguments: { path: kept } })).toMatchObject({ content: [{ text: "kept" }] });
    for (const name of ["write_file", "edit_file", "move_file", "create_directory"]) {
      const call = reader.callTool({ name, arguments: { path: directory.file("new.txt"), content: "x" } });
      await expect(call).rejects.toMatchObject({ code: -32602, data: { code: "TOOL_NOT_FOUND", sent: false } });
    }
    expect([await readdir(directory.path), await readFile(kept, "utf8")]).toEqual([["kept.txt"], "kept"]);
  });
});
