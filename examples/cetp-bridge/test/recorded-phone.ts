import { chmod, readFile, writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { TempDir } from "../../../test/support/temp-dir.ts";
import { type DeviceState, FIRST_STATE } from "../stand-in/apps.ts";
import type { Phone } from "./phone.ts";
import { readState, type RecordedState, writeState } from "./recording.ts";

const RECORDED_ADB = fileURLToPath(new URL("recorded-adb.ts", import.meta.url));

/** A program that answers as adb did with the stand-in. */
export class RecordedPhone implements Phone {
  readonly env: Readonly<Record<string, string>>;
  readonly #folder: TempDir;

  private constructor(folder: TempDir) {
    this.#folder = folder;
    this.env = { ADB: folder.file("adb"), ANDROID_SERIAL: "127.0.0.1:5555", RECORDED_STATE: folder.file("state.json") };
  }

  static async start(apps: readonly string[]): Promise<RecordedPhone> {
    const phone = new RecordedPhone(await TempDir.create());
    phone.#write({ ...FIRST_STATE, isPluggedIn: true, installed: Object.fromEntries(apps.map((name) => [name, 1])) });
    await writeFile(phone.#folder.file("adb"), `#!/bin/sh\nexec '${process.execPath}' '${RECORDED_ADB}' "$@"\n`);
    await chmod(phone.#folder.file("adb"), 0o755);
    return phone;
  }

  async change(change: (state: DeviceState) => void): Promise<void> {
    const state = this.#read();
    change(state);
    this.#write(state);
    return Promise.resolve();
  }

  async commands(): Promise<readonly string[]> {
    return (await this.#lines("commands")).filter((line) => line.startsWith("shell "));
  }

  async unplug(): Promise<void> {
    this.#write({ ...this.#read(), isPluggedIn: false });
    return Promise.resolve();
  }

  async plugIn(): Promise<void> {
    this.#write({ ...this.#read(), isPluggedIn: true });
    return Promise.resolve();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const unrecorded = await this.#lines("unrecorded");
    await this.#folder[Symbol.asyncDispose]();
    if (unrecorded.length > 0) throw new Error(`run "npm run record" for these commands of adb:\n${unrecorded.join("\n")}`);
  }

  async #lines(name: string): Promise<readonly string[]> {
    const text = await readFile(this.#folder.file(name), "utf8").catch(() => "");
    return text.split("\n").filter((line) => line !== "");
  }

  #read(): RecordedState {
    return readState(this.env["RECORDED_STATE"] ?? "");
  }

  #write(state: RecordedState): void {
    writeState(this.env["RECORDED_STATE"] ?? "", state);
  }
}
