import { rm, writeFile } from "node:fs/promises";
import { TempDir } from "./temp-dir.ts";

/** Delays the readiness of a fixture in mode `gated` until the gate is open. */
export class Gate implements AsyncDisposable {
  readonly #directory: TempDir;

  private constructor(directory: TempDir) {
    this.#directory = directory;
  }

  /** Creates a closed gate. */
  static async create(): Promise<Gate> {
    return new Gate(await TempDir.create());
  }

  /** The environment for the fixture. */
  get env(): Readonly<Record<string, string>> {
    return { FIXTURE_GATE: this.#path };
  }

  get #path(): string {
    return this.#directory.file("open");
  }

  open(): Promise<void> {
    return writeFile(this.#path, "");
  }

  close(): Promise<void> {
    return rm(this.#path);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#directory[Symbol.asyncDispose]();
  }
}
