import { readdir, readFile, writeFile } from "node:fs/promises";
import { describe, expect, it } from "vitest";
import { disposeAfterAll } from "../support/dispose-after-all.ts";
import { EVERYTHING, filesystem } from "../support/real-servers.ts";
import { DirectClient } from "../support/sdk-client.ts";
import { CLIENTS, InteropClient } from "../support/sdk-clients.ts";
import { Sidecar } from "../support/sidecar.ts";
import { TempDir } from "../support/temp-dir.ts";

const NOT_FOUND = { code: -32602, data: { code: "TOOL_NOT_FOUND", sent: false } };

function isReadOnly({ annotations }: { readonly annotations?: { readonly readOnlyHint?: boolean | undefined } | undefined }): boolean {
  return annotations?.readOnlyHint === true;
}

describe("read-only mode of the filesystem server", async () => {
  const root = disposeAfterAll(await TempDir.create());
  const [kept, written] = [root.file("kept.txt"), root.file("written.txt")];
  await writeFile(kept, "kept");
  const sidecar = disposeAfterAll(await Sidecar.start({ command: filesystem(root.path), flags: ["--read-only"] }));

  it.each(CLIENTS)("the $sdk client of a $lane server can read files and write none", async ({ sdk, lane }) => {
    await using client = await InteropClient.connect(sdk, sidecar.url, {
      lane,
      answer: () => ({ roots: [{ uri: `file://${root.path}` }] }),
    });
    const tools = await client.listTools();
    const names = tools.map(({ name }) => name);
    expect([tools.every(isReadOnly), names]).toEqual([true, expect.arrayContaining(["read_text_file", "list_directory", "get_file_info"])]);
    expect(await client.callTool("read_text_file", { path: kept })).toMatchObject({ content: [{ text: "kept" }] });
    const writes: [string, Record<string, unknown>][] = [
      ["write_file", { path: written, content: "x" }],
      ["edit_file", { path: kept, edits: [{ oldText: "kept", newText: "lost" }] }],
      ["move_file", { source: kept, destination: written }],
      ["create_directory", { path: written }],
    ];
    for (const [name, args] of writes) {
      expect(names).not.toContain(name);
      await expect(client.callTool(name, args)).rejects.toMatchObject(NOT_FOUND);
    }
    expect([await readdir(root.path), await readFile(kept, "utf8")]).toEqual([["kept.txt"], "kept"]);
  });
});

describe("read-only mode of the everything server", async () => {
  const sidecar = disposeAfterAll(await Sidecar.start({ command: EVERYTHING, flags: ["--read-only", "--deny-tools", "*-env"] }));
  const direct = disposeAfterAll(await DirectClient.connect(EVERYTHING));
  const all = (await direct.listTools()).tools;
  const expected = all.filter((tool) => isReadOnly(tool) && tool.name !== "get-env").map(({ name }) => name);

  it.each(CLIENTS)("the $sdk client of a $lane server has its read-only tools except denied ones", async ({ sdk, lane }) => {
    await using client = await InteropClient.connect(sdk, sidecar.url, { lane });
    const tools = await client.listTools();
    expect(tools.every(isReadOnly)).toBe(true);
    const names = tools.map(({ name }) => name);
    expect(names).toEqual(expect.arrayContaining(expected));
    expect(names).not.toContain("get-env");
    expect(await client.callTool("echo", { message: "hello" })).toMatchObject({ content: [{ text: "Echo: hello" }] });
    for (const name of ["get-env", "toggle-simulated-logging", "gzip-file-as-resource"]) {
      await expect(client.callTool(name, {})).rejects.toMatchObject(NOT_FOUND);
    }
  });
});
