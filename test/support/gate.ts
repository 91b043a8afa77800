import { rm, writeFile } from "node:fs/promises";
import { TempDir } from "./temp-dir.ts";

/** Delays the readiness of a fixture in mode `gated` until the gate is open. */
export class Gate extends TempDir {
  readonly #path = this.file("open");

  static override async create(): Promise<Gate> {
    return new Gate(await TempDir.make());
  }

  get env(): Readonly<Record<string, string>> {
    return { FIXTURE_GATE: this.#path };
  }

  open(): Promise<void> {
    return writeFile(this.#path, "");
  }

  close(): Promise<void> {
    return rm(this.#path);
  }
}
