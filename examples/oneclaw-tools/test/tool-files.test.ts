import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, readdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { TempDir } from "../../../test/support/temp-dir.ts";
import { readSettings } from "../src/settings.ts";
import { ToolError } from "../src/tool.ts";
import { readFile } from "../src/tools/read-file.ts";
import { writeFile } from "../src/tools/write-file.ts";

const ROUNDS = 500;

/** Replaces a name by turns with two others, until it is killed. It prints a line when it has begun. */
const SWAPPER = `
  import { renameSync, symlinkSync, rmSync, mkdirSync, writeFileSync } from "node:fs";
  const [path, target, kind] = process.argv.slice(1);
  const honest = path + ".honest", evil = path + ".evil";
  process.stdout.write("begun\\n");
  const steps = [
    () => (kind === "folder" ? (mkdirSync(honest, { recursive: true }), writeFileSync(honest + "/data.txt", "inside")) : writeFileSync(honest, "inside")),
    () => rmSync(path, { recursive: true, force: true }),
    () => renameSync(honest, path),
    () => symlinkSync(target, evil),
    () => rmSync(path, { recursive: true, force: true }),
    () => renameSync(evil, path),
  ];
  // A step fails if the tools are faster.
  for (;;) for (const step of steps) try { step(); } catch {}
`;

describe("the file tools", () => {
  let folder: TempDir;
  let outside: TempDir;
  beforeEach(async () => {
    [folder, outside] = await Promise.all([TempDir.create(), TempDir.create()]);
    writeFileSync(outside.file("data.txt"), "outside");
  });
  afterEach(() => Promise.all([folder[Symbol.asyncDispose](), outside[Symbol.asyncDispose]()]));

  const context = (signal = new AbortController().signal) => {
    const settings = readSettings({ ONECLAW_FOLDER: folder.path, ONECLAW_MAX_FILE_BYTES: "1000" }, [readFile]);
    return { settings, signal };
  };
  const read = async (args: object): Promise<unknown> => readFile.execute(args as never, context());
  const write = async (args: object, signal?: AbortSignal): Promise<unknown> => writeFile.execute(args as never, context(signal));

  it.each([
    ["file", "race.txt", "data.txt"],
    ["folder", "race/data.txt", ""],
  ])("a %s that is swapped with a link never leads outside", async (kind, path, targetName) => {
    const name = path.split("/")[0] ?? "";
    const swapper = spawn(
      process.execPath,
      ["--input-type=module", "-e", SWAPPER, folder.file(name), outside.file(targetName).replace(/\/$/, ""), kind],
      { stdio: ["ignore", "pipe", "inherit"] },
    );
    try {
      await once(swapper.stdout, "data");
      const outcomes = new Map<string, number>();
      const count = (outcome: string): void => void outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1);
      // More rounds if the other process does not run meanwhile.
      const isSeen = (): boolean => outcomes.has("written") && outcomes.has("ToolError");
      for (let round = 0; round < ROUNDS || (!isSeen() && round < 100 * ROUNDS); round += 1) {
        const mode = round % 2 === 0 ? "overwrite" : "append";
        await read({ path }).then(
          (text) => count(`read ${String(text).replace(/(written)+/, "written")}`),
          (error: unknown) => count(nameOf(error)),
        );
        await write({ path, content: "written", mode }).then(
          () => count("written"),
          (error: unknown) => count(nameOf(error)),
        );
      }
      expect([...outcomes.keys()].filter((outcome) => outcome.includes("outside"))).toEqual([]);
      // Both sides of the race were seen.
      expect(isSeen()).toBe(true);
      expect(readFileSync(outside.file("data.txt"), "utf8")).toBe("outside");
      expect(readdirSync(outside.path)).toEqual(["data.txt"]);
    } finally {
      swapper.kill("SIGKILL");
      await once(swapper, "exit");
    }
  });

  it("a pipe is refused without blocking, with and without a reader", async () => {
    execFileSync("mkfifo", [folder.file("pipe")]);
    const expectRefusals = async (): Promise<void> => {
      for (const attempt of [
        read({ path: "pipe" }),
        ...["overwrite", "append"].map((mode) => write({ path: "pipe", content: "x", mode })),
      ]) {
        await expect(attempt).rejects.toThrow("pipe is not a regular file");
      }
    };
    await expectRefusals();
    const reader = spawn("cat", [folder.file("pipe")], { stdio: "ignore" });
    await expectRefusals();
    reader.kill();
  });

  it("a folder is refused as a file", async () => {
    mkdirSync(folder.file("inner"));
    for (const path of ["inner", ".", "inner/.."]) {
      await expect(read({ path })).rejects.toThrow(`${path} is a folder`);
      await expect(write({ path, content: "x" })).rejects.toThrow(`${path} is a folder`);
    }
  });

  it("a path through a file is refused", async () => {
    writeFileSync(folder.file("file"), "");
    await expect(read({ path: "file/x" })).rejects.toThrow("file/x leads through a file, or through a symbolic link");
    await expect(write({ path: "file/x", content: "" })).rejects.toThrow("file/x leads through a file, or through a symbolic link");
  });

  it.each([
    ["zeros", Buffer.from([0x61, 0, 0x62]), "utf-8"],
    ["an invalid sequence", Buffer.from([0x61, 0xff, 0xfe]), "utf-8"],
    ["zeros in a code page", Buffer.from([0x61, 0, 0x62]), "windows-1252"],
  ])("a file with %s is binary", async (_what, bytes, encoding) => {
    writeFileSync(folder.file("data.bin"), bytes);
    await expect(read({ path: "data.bin", encoding })).rejects.toThrow(
      `data.bin is a binary file, or not text in ${encoding}. Read it with another encoding`,
    );
  });

  it("an unknown encoding is a validation error", async () => {
    writeFileSync(folder.file("a.txt"), "x");
    await expect(read({ path: "a.txt", encoding: "klingon" })).rejects.toMatchObject({ type: "validation_error" });
  });

  it("a file that would exceed the size limit stays as it was", async () => {
    await expect(write({ path: "a.txt", content: "é".repeat(501) })).rejects.toThrow(
      "a.txt would have 1002 bytes. The limit is 1000 bytes",
    );
    await write({ path: "a.txt", content: "x".repeat(600) });
    await expect(write({ path: "a.txt", content: "x".repeat(600), mode: "append" })).rejects.toThrow("a.txt would have 1200 bytes");
    expect(statSync(folder.file("a.txt")).size).toBe(600);
  });

  it("an aborted overwrite leaves the old file, and no other", async () => {
    await write({ path: "a.txt", content: "old" });
    const controller = new AbortController();
    const written = write({ path: "a.txt", content: "new" }, controller.signal);
    controller.abort();
    await expect(written).rejects.toThrow("aborted");
    expect(readdirSync(folder.path)).toEqual(["a.txt"]);
    expect(readFileSync(folder.file("a.txt"), "utf8")).toBe("old");
  });

  it("an overwrite keeps the permission bits, and a new file is private", async () => {
    writeFileSync(folder.file("shared.txt"), "", { mode: 0o664 });
    const before = statSync(folder.file("shared.txt")).mode;
    await write({ path: "shared.txt", content: "x" });
    await write({ path: "private.txt", content: "x" });
    expect([statSync(folder.file("shared.txt")).mode, statSync(folder.file("private.txt")).mode & 0o777]).toEqual([before, 0o600]);
  });

  it("no file descriptor stays open", async () => {
    symlinkSync(outside.path, folder.file("link"));
    const openFiles = (): number => readdirSync("/proc/self/fd").length;
    const before = openFiles();
    for (let round = 0; round < 50; round += 1) {
      await write({ path: "deep/er/file.txt", content: "x" });
      await read({ path: "deep/er/file.txt" });
      for (const path of ["link/data.txt", "deep/missing/file.txt", "deep"]) await expect(read({ path })).rejects.toThrow(ToolError);
    }
    expect(openFiles()).toBeLessThan(before + 20);
  });
});

function nameOf(error: unknown): string {
  return error instanceof ToolError ? "ToolError" : String(error);
}
