import { spawn } from "node:child_process";
import { once } from "node:events";
import { chmod, mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { AdbDevice } from "../../../examples/cetp-bridge/stand-in/adb-protocol.ts";
import type { DeviceState } from "../../../examples/cetp-bridge/stand-in/apps.ts";
import { StandIn } from "../../../examples/cetp-bridge/stand-in/device.ts";
import type { Phone } from "../../../examples/cetp-bridge/test/phone.ts";
import { keyOf, type RecordedState, RECORDING, type Run, writeState } from "../../../examples/cetp-bridge/test/recording.ts";
import { freePort } from "../../support/pod.ts";
import { TempDir } from "../../support/temp-dir.ts";

const RECORDING_ADB = fileURLToPath(new URL("../../../examples/cetp-bridge/test/recording-adb.ts", import.meta.url));
const ADB_TIMEOUT_MS = 30_000;
const POLL_MS = 20;
/** A part of the command that lists the packages. */
const SCAN = "list packages";

export interface RealPhoneOptions {
  /** A device as before Android 11, whose `content` has no escapes. */
  readonly isOld?: boolean;
  /** Records all runs of adb. */
  readonly isRecorded?: boolean;
}

/** The real adb, with a server of its own, and the stand-in. Use with `await using`. */
export class RealPhone implements Phone {
  readonly env: Readonly<Record<string, string>>;
  readonly standIn: StandIn;
  readonly port: number;
  readonly #folder: TempDir;
  #device: AdbDevice | undefined;
  #isWatched = false;
  #saved: RecordedState | undefined;

  private constructor(folder: TempDir, standIn: StandIn, port: number, env: Readonly<Record<string, string>>) {
    [this.#folder, this.standIn, this.port, this.env] = [folder, standIn, port, env];
  }

  static async start(apps: readonly string[], { isOld = false, isRecorded = false }: RealPhoneOptions = {}): Promise<RealPhone> {
    const folder = await TempDir.create();
    const port = await freePort();
    await mkdir(folder.file("runs"));
    await writeFile(folder.file("adb"), `#!/bin/sh\nexec '${process.execPath}' '${RECORDING_ADB}' "$@"\n`);
    await chmod(folder.file("adb"), 0o755);
    const env = {
      HOME: folder.path,
      ANDROID_ADB_SERVER_PORT: String(await freePort()),
      ANDROID_SERIAL: `127.0.0.1:${port}`,
      ...(isRecorded ? { ADB: folder.file("adb"), RECORDED_STATE: folder.file("state.json"), RECORDING_FOLDER: folder.file("runs") } : {}),
    };
    const phone = new RealPhone(folder, new StandIn(apps, isOld), port, env);
    await phone.plugIn();
    phone.#isWatched = isRecorded;
    return phone;
  }

  async change(change: (state: DeviceState) => void): Promise<void> {
    change(this.standIn.state);
    await this.#save();
  }

  async commands(): Promise<readonly string[]> {
    return Promise.resolve(this.standIn.commands.map((words) => `shell ${words.join(" ")}`));
  }

  async unplug(): Promise<void> {
    await this.#device?.close();
    this.#device = undefined;
    await this.#save();
  }

  async plugIn(): Promise<void> {
    this.#device = new AdbDevice((line) => {
      const output = this.standIn.run(line);
      this.#saveSync();
      return output;
    });
    this.#saveSync();
    await this.#device.listen(this.port, "127.0.0.1");
    await this.#save();
  }

  /** Runs adb with the server of this phone. @throws {Error} if it fails. */
  async adb(...args: readonly string[]): Promise<void> {
    const child = spawn("adb", args, {
      env: { ...process.env, ...this.env },
      stdio: ["ignore", "ignore", "inherit"],
      timeout: ADB_TIMEOUT_MS,
    });
    const [exitCode] = (await once(child, "exit")) as [number | null];
    if (exitCode !== 0) throw new Error(`adb ${args.join(" ")} ends with ${exitCode}`);
  }

  /** Adds the recorded runs to those of earlier phones. */
  async saveRecording(earlier: readonly Run[]): Promise<Run[]> {
    const byKey = new Map([...earlier, ...(await this.#runs())].map((run) => [keyOf(run.state, run.args), run]));
    const sorted = [...byKey].toSorted(([one], [other]) => (one < other ? -1 : 1)).map(([, run]) => run);
    await writeFile(RECORDING, sorted.map((run) => `${JSON.stringify(run)}\n`).join(""));
    return sorted;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#device?.close();
    await this.adb("kill-server");
    await this.#folder[Symbol.asyncDispose]();
  }

  /** Returns when the bridge has looked at this state, if that is recorded. */
  async #save(): Promise<void> {
    this.#saveSync();
    const key = (state: RecordedState): string => keyOf(state, ["shell", SCAN]);
    const isSeen = (run: Run): boolean => key(run.state) === key(this.#state) && run.args.join().includes(SCAN);
    while (this.#isWatched && !(await this.#runs()).some(isSeen)) await delay(POLL_MS);
  }

  async #runs(): Promise<Run[]> {
    const names = await readdir(this.#folder.file("runs"));
    return Promise.all(names.map(async (name) => JSON.parse(await readFile(this.#folder.file(`runs/${name}`), "utf8")) as Run));
  }

  get #state(): RecordedState {
    return { ...this.standIn.state, isPluggedIn: this.#device !== undefined };
  }

  #saveSync(): void {
    const state = this.#state;
    if (JSON.stringify(state) === JSON.stringify(this.#saved)) return;
    this.#saved = structuredClone(state);
    writeState(this.#folder.file("state.json"), state);
  }
}
