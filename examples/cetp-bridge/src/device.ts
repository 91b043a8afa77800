import { setTimeout as delay } from "node:timers/promises";
import { type Adb, CommandError, deadline, DeviceError } from "./adb.ts";
import { log } from "./log.ts";
import { fullClassName, PROVIDER_ACTION } from "./manifest.ts";
import { cleanLine } from "./text.ts";

const SCAN_TIMEOUT_MS = 15_000;
const CONNECT_TIMEOUT_MS = 10_000;
const SCAN = [
  ["cmd", "package", "query-services", "--components", "-a", PROVIDER_ACTION],
  // With -f, the path of the app: each installation has another one, also of the same version.
  ["cmd", "package", "list", "packages", "-f"],
];

/** An app with at least one service for the action of tool providers. */
export interface App {
  readonly packageName: string;
  /** The path of its APK. */
  readonly path: string;
  /** The full names of the services' classes. */
  readonly services: ReadonlySet<string>;
}

export interface DeviceListener {
  /** The apps, at each look. */
  onApps(apps: readonly App[]): void;
  onLost(): void;
}

/** Looks at the packages of the device again and again, since adb passes no broadcasts. Connects again if the device is lost. */
export class Device {
  readonly #adb: Adb;
  readonly #refreshMs: number;
  readonly #connectTo: string | undefined;
  readonly #listener: DeviceListener;
  #lastProblem = "";

  constructor(adb: Adb, options: { readonly refreshMs: number; readonly connectTo: string | undefined }, listener: DeviceListener) {
    [this.#adb, this.#listener] = [adb, listener];
    [this.#refreshMs, this.#connectTo] = [options.refreshMs, options.connectTo];
  }

  /** Runs until the signal aborts. */
  async watch(signal: AbortSignal): Promise<void> {
    await this.#connect(signal);
    while (!signal.aborted) {
      try {
        this.#listener.onApps(await this.#scan(signal));
        if (this.#lastProblem !== "") log("the device is back");
        this.#lastProblem = "";
      } catch (error) {
        if (signal.aborted) return;
        await this.#onProblem(error as Error, signal);
      }
      await delay(this.#refreshMs, undefined, { signal }).catch(() => undefined);
    }
  }

  async #onProblem(problem: Error, signal: AbortSignal): Promise<void> {
    const { message } = problem;
    // A device that is slow is not lost.
    if (!(problem instanceof CommandError)) this.#listener.onLost();
    if (message !== this.#lastProblem) log(`the device is not available: ${message}${adviceFor(message)}`);
    this.#lastProblem = message;
    // adb keeps a broken connection as "offline", and does not replace it.
    if (this.#connectTo !== undefined && message.includes("offline"))
      await this.#adb.run(["disconnect", this.#connectTo], deadline(CONNECT_TIMEOUT_MS, signal)).catch(() => undefined);
    await this.#connect(signal);
  }

  /** adb does not connect to the address in ANDROID_SERIAL by itself. */
  async #connect(signal: AbortSignal): Promise<void> {
    if (this.#connectTo === undefined) return;
    await this.#adb.run(["connect", this.#connectTo], deadline(CONNECT_TIMEOUT_MS, signal)).catch(() => undefined);
  }

  /** @throws {Error} if the packages cannot be listed. */
  async #scan(signal: AbortSignal): Promise<App[]> {
    const output = await this.#adb.shell(SCAN, deadline(SCAN_TIMEOUT_MS, signal));
    // Paths have equal signs, names have none.
    const paths = new Map<string, string>();
    for (const [, path = "", name = ""] of output.matchAll(/^package:(\/.+)=([\w.]+)\r?$/gm)) paths.set(name, path);
    if (paths.size === 0) throw new DeviceError(`it does not list its packages: ${cleanLine(output, 100) || "it may be starting"}`);
    const components = output.matchAll(/^[ \t]*([\w.]+)\/([\w.$]+)\r?$/gm);
    return [...Map.groupBy(components, ([, name = ""]) => name)].flatMap(([packageName, services]) => {
      const path = paths.get(packageName);
      const classes = new Set(services.map(([, , service = ""]) => fullClassName(packageName, service)));
      return path === undefined ? [] : [{ packageName, path, services: classes }];
    });
  }
}

function adviceFor(problem: string): string {
  if (problem.includes("more than one")) return ". Set ANDROID_SERIAL to one of `adb devices`";
  if (problem.includes("unauthorized")) return ". Accept the key of this computer on the device";
  if (problem.includes("no devices")) return ". Connect a device, or set ANDROID_SERIAL to its HOST:PORT";
  return "";
}
