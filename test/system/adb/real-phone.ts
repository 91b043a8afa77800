import { spawn } from "node:child_process";
import { once } from "node:events";
import { AdbDevice } from "../../../examples/cetp-bridge/stand-in/adb-protocol.ts";
import type { DeviceState } from "../../../examples/cetp-bridge/stand-in/apps.ts";
import { StandIn } from "../../../examples/cetp-bridge/stand-in/device.ts";
import type { Phone } from "../../../examples/cetp-bridge/test/phone.ts";
import { freePort } from "../../support/open-sockets.ts";
import { TempDir } from "../../support/temp-dir.ts";

const ADB_TIMEOUT_MS = 30_000;

/** The real adb, with a server of its own, and the stand-in. Use with `await using`. */
export class RealPhone implements Phone {
  readonly env: Readonly<Record<string, string>>;
  readonly standIn: StandIn;
  readonly port: number;
  readonly #folder: TempDir;
  #device: AdbDevice | undefined;

  private constructor(folder: TempDir, standIn: StandIn, port: number, env: Readonly<Record<string, string>>) {
    [this.#folder, this.standIn, this.port, this.env] = [folder, standIn, port, env];
  }

  /** @param isOld a device as before Android 11, whose `content` has no escapes. */
  static async start(apps: readonly string[], isOld = false): Promise<RealPhone> {
    const folder = await TempDir.create();
    const port = await freePort();
    const env = {
      HOME: folder.path,
      ANDROID_ADB_SERVER_PORT: String(await freePort()),
      ANDROID_SERIAL: `127.0.0.1:${port}`,
    };
    const phone = new RealPhone(folder, new StandIn(apps, isOld), port, env);
    await phone.plugIn();
    return phone;
  }

  async change(change: (state: DeviceState) => void): Promise<void> {
    change(this.standIn.state);
    return Promise.resolve();
  }

  async commands(): Promise<readonly string[]> {
    return Promise.resolve(this.standIn.commands.map((words) => `shell ${words.join(" ")}`));
  }

  async unplug(): Promise<void> {
    await this.#device?.close();
    this.#device = undefined;
  }

  async plugIn(): Promise<void> {
    this.#device = new AdbDevice((line) => this.standIn.run(line));
    await this.#device.listen(this.port, "127.0.0.1");
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

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#device?.close();
    await this.adb("kill-server");
    await this.#folder[Symbol.asyncDispose]();
  }
}
