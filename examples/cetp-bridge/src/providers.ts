import { setTimeout as delay } from "node:timers/promises";
import pLimit, { type LimitFunction } from "p-limit";
import { type Adb, CommandError, DeviceError, type RunOptions } from "./adb.ts";
import { type Answer, readAnswer } from "./bundle.ts";
import { log } from "./text.ts";

/** Calls of one provider at a time, so that one that hangs leaves processes for others. */
const MAX_CALLS = 2;
/** More than these do not wait for one provider. */
const MAX_WAITING = 16;
/** An app that has been started creates its provider before it shows anything. */
const START_MS = 500;

export interface Provider {
  readonly packageName: string;
  readonly authority: string;
}

export type Method = "list_tools" | "execute_tool" | "get_provider_info";

/** Calls content providers by `content call`, as ContentResolver.call() does within Android. */
export class Providers {
  readonly #adb: Adb;
  readonly #canStartApps: boolean;
  readonly #limits = new Map<string, LimitFunction>();
  #escapesExtras: Promise<boolean> | undefined;

  constructor(adb: Adb, canStartApps: boolean) {
    this.#adb = adb;
    this.#canStartApps = canStartApps;
  }

  /** Forgets everything about the device, since the next one may be another. */
  reset(): void {
    this.#escapesExtras = undefined;
    this.#limits.clear();
  }

  /** Never throws: failures become answers too, with a code of their own. */
  async call(provider: Provider, method: Method, extras: Readonly<Record<string, string>>, options: RunOptions): Promise<Answer> {
    const limit = this.#limits.get(provider.authority) ?? pLimit(MAX_CALLS);
    this.#limits.set(provider.authority, limit);
    if (limit.pendingCount >= MAX_WAITING) return failure("BUSY", "Too many calls wait for this app.");
    try {
      return await limit(() => this.#callOrStart(provider, method, extras, options));
    } catch (error) {
      if (error instanceof CommandError) return failure(error.code, error.message);
      if (error instanceof DeviceError) return failure("DEVICE_UNAVAILABLE", error.message);
      return failure("INTERNAL_ERROR", (error as Error).message);
    }
  }

  /** Starts an activity of the package that belongs to this action. @returns false if there is none. */
  async startActivity(packageName: string, action: string, options: RunOptions): Promise<boolean> {
    const output = await this.#adb.shell([["am", "start", "-a", action, "-p", packageName]], options);
    return /^Starting: Intent/m.test(output) && !/^(?:Error|Exception|java\.)/m.test(output);
  }

  /** The fallback of CETP §3.3: calls again, which makes Android start the process, then opens the app. */
  async #callOrStart(provider: Provider, method: Method, extras: Readonly<Record<string, string>>, options: RunOptions): Promise<Answer> {
    const call = async (): Promise<Answer | undefined> => this.#callOnce(provider, method, await this.#words(extras, options), options);
    const answer = (await call()) ?? (await call());
    if (answer !== undefined) return answer;
    if (this.#canStartApps && (await this.#openApp(provider.packageName, options))) {
      await delay(START_MS, undefined, { signal: options.signal });
      const afterStart = await call();
      if (afterStart !== undefined) return afterStart;
    }
    return failure("PROVIDER_UNAVAILABLE", "Android does not start the provider. Open the app on the device, then try again.");
  }

  /** @returns undefined if the process of the provider does not start. */
  async #callOnce({ authority }: Provider, method: Method, extras: readonly string[], options: RunOptions): Promise<Answer | undefined> {
    const output = await this.#adb.shell([["content", "call", "--uri", `content://${authority}`, "--method", method, ...extras]], options);
    const answer = readAnswer(output);
    if (answer !== undefined) return answer;
    if (/^Result: null$/m.test(output)) return failure("TOOL_NOT_FOUND", `The app does not know ${method}.`);
    if (/^Result: /m.test(output)) return failure("INTERNAL_ERROR", "The answer of the app cannot be read.");
    if (/Could not find provider|DeadObjectException/.test(output)) return undefined;
    const [exception = ""] = /^(?:java|android)\.[\w.]+(?:Exception|Error)\b.*$/m.exec(output) ?? [];
    return failure(exception.includes("SecurityException") ? "PERMISSION_DENIED" : "INTERNAL_ERROR", exception || "There was no answer.");
  }

  async #openApp(packageName: string, options: RunOptions): Promise<boolean> {
    const resolved = await this.#adb.shell([["cmd", "package", "resolve-activity", "--brief", packageName]], options);
    const component = resolved.split("\n").find((line) => line.startsWith(`${packageName}/`));
    if (component === undefined) return false;
    log(`${packageName} is opened on the device, since its provider does not start`);
    await this.#adb.shell([["am", "start", "-n", component.trim()]], options);
    return true;
  }

  /** `content` splits a binding at its colons. Since Android 11, those of the value need a backslash; before, it would stay in the value. */
  async #words(extras: Readonly<Record<string, string>>, options: RunOptions): Promise<string[]> {
    const entries = Object.entries(extras);
    if (entries.length === 0) return [];
    this.#escapesExtras ??= this.#findEscaping(options);
    // A failed attempt is not kept.
    const isEscaped = await this.#escapesExtras.catch((error: unknown) => {
      this.#escapesExtras = undefined;
      throw error;
    });
    return entries.flatMap(([key, value]) => ["--extra", `${key}:s:${isEscaped ? value.replaceAll(/[\\:]/g, String.raw`\$&`) : value}`]);
  }

  /** No provider has this authority, so nothing is called. */
  async #findEscaping({ timeoutMs }: RunOptions): Promise<boolean> {
    const words = ["content", "call", "--uri", "content://cetp-bridge.invalid", "--method", "none", "--extra", "key:s:a:b"];
    return (await this.#adb.shell([words], { timeoutMs })).includes("Binding not well formed");
  }
}

export function failure(code: string, message: string): Answer {
  return { status: "error", code, message };
}
