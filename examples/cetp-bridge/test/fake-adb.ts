import { chmod, readFile, writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { TempDir } from "../../../test/support/temp-dir.ts";

const MANIFEST = fileURLToPath(new URL("../stand-in/apps/weather.axml", import.meta.url));

/** A script of sh in place of adb. Its `$F` is a folder, and its `$M` the manifest of the weather app. Each run is a line in `$F/runs`. */
export class FakeAdb implements AsyncDisposable {
  readonly path: string;
  readonly #folder: TempDir;

  private constructor(folder: TempDir) {
    [this.#folder, this.path] = [folder, folder.file("adb")];
  }

  /** @param answers what to do for each pattern of arguments. */
  static async create(answers: Readonly<Record<string, string>>): Promise<FakeAdb> {
    const adb = new FakeAdb(await TempDir.create());
    const cases = Object.entries(answers).map(([pattern, command]) => `${pattern}) ${command} ;;\n`);
    const head = `#!/bin/sh\nF='${adb.#folder.path}'\nM='${MANIFEST}'\nprintf '%s\\n' "$*" >>"$F/runs"\n`;
    await writeFile(adb.path, `${head}case "$*" in\n${cases.join("")}esac\n`);
    await chmod(adb.path, 0o755);
    return adb;
  }

  async read(name: string): Promise<string> {
    return readFile(this.#folder.file(name), "utf8").catch(() => "");
  }

  async write(name: string, text: string): Promise<void> {
    await writeFile(this.#folder.file(name), text);
  }

  /** Returns how many runs had this part in their arguments. */
  async count(part: string): Promise<number> {
    return (await this.read("runs")).split("\n").filter((line) => line.includes(part)).length;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#folder[Symbol.asyncDispose]();
  }
}
