import { mkdtempDisposable, realpath } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** An empty directory of one test. Use with `await using`: it is removed with all that is in it. */
export class TempDir implements AsyncDisposable {
  readonly #directory: AsyncDisposable & { readonly path: string };

  private constructor(directory: AsyncDisposable & { readonly path: string }) {
    this.#directory = directory;
  }

  static async create(): Promise<TempDir> {
    return new TempDir(await mkdtempDisposable(join(await realpath(tmpdir()), "claw-mcp-stdio-test-")));
  }

  get path(): string {
    return this.#directory.path;
  }

  file(name: string): string {
    return join(this.path, name);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#directory[Symbol.asyncDispose]();
  }
}
