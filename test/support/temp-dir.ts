import { mkdtemp, realpath, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** An empty directory of one test. Use with `await using`: it is removed with its contents. */
export class TempDir implements AsyncDisposable {
  readonly path: string;

  protected constructor(path: string) {
    this.path = path;
  }

  static async create(): Promise<TempDir> {
    return new TempDir(await TempDir.make());
  }

  /** @returns the path of a new directory. */
  protected static async make(): Promise<string> {
    return mkdtemp(join(await realpath(tmpdir()), "claw-mcp-stdio-test-"));
  }

  file(name: string): string {
    return join(this.path, name);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await rm(this.path, { recursive: true, force: true });
  }
}
