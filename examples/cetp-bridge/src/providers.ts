import { randomUUID } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import PQueue from "p-queue";
import { type Adb, checkBytes, CommandError, deadline, DeviceError } from "./adb.ts";
import { type Answer, readAnswer } from "./bundle.ts";
import { log } from "./log.ts";

/** Calls of one app at a time, so that one that hangs leaves processes for others. */
const MAX_CALLS = 3;
/** Calls of one tool at a time, so that one that is slow leaves a place for the other tools of its app. */
const MAX_TOOL_CALLS = 2;
/** More calls than these do not wait for one tool. */
const MAX_QUEUED_CALLS = 64;
/** What an app has to say about itself: 64 KiB, and the Bundle around it. */
const MAX_LIST_BYTES = 65 * 1024;
const PROBE_TIMEOUT_MS = 10_000;
/** An app that has been started creates its provider before it shows anything. */
const START_DELAY_MS = 500;
/** An app that always needs it must not be in front all the time. */
const OPEN_INTERVAL_MS = 60_000;

export interface Provider {
  readonly packageName: string;
  readonly authority: string;
}

type Extras = Readonly<Record<string, string>>;

/** Calls content providers by `content call`, as ContentResolver.call() does within Android. */
export class Providers {
  readonly #adb: Adb;
  readonly #canStartApps: boolean;
  /** Of apps, and of their tools. */
  readonly #queues = new Map<string, PQueue>();
  readonly #openedAtMs = new Map<string, number>();
  #escapesExtras: Promise<boolean> | undefined;

  constructor(adb: Adb, canStartApps: boolean) {
    [this.#adb, this.#canStartApps] = [adb, canStartApps];
  }

  /** Forgets everything about the device, since the next one may be another. */
  reset(): void {
    this.#escapesExtras = undefined;
    this.#queues.clear();
    this.#openedAtMs.clear();
  }

  /** Calls a tool, after those that wait. Never throws: failures become answers too, with a code of their own. */
  async execute(provider: Provider, tool: string, extras: Extras, signal: AbortSignal): Promise<Answer> {
    return answered(signal, async () => {
      const all = { tool_name: tool, ...extras };
      checkBytes(Buffer.byteLength(Object.values(all).join("")));
      const call = (): Promise<Answer> => this.#callOrStart(provider, "execute_tool", all, signal);
      const ofTool = this.#queueOf(`${provider.packageName} ${tool}`, MAX_TOOL_CALLS);
      if (ofTool.size >= MAX_QUEUED_CALLS) return failure("BUSY", "Too many calls wait for this tool.");
      return ofTool.add(() => this.#queueOf(provider.packageName, MAX_CALLS).add(call, { signal }), { signal });
    });
  }

  /** Returns a queue that is forgotten when it is empty. */
  #queueOf(key: string, concurrency: number): PQueue {
    const known = this.#queues.get(key);
    if (known !== undefined) return known;
    const queue = new PQueue({ concurrency });
    this.#queues.set(key, queue);
    return queue.on("idle", () => this.#queues.get(key) === queue && this.#queues.delete(key));
  }

  /** Asks for what an app has. It waits for no tool. */
  async ask(provider: Provider, method: "list_tools" | "get_provider_info", signal: AbortSignal): Promise<Answer> {
    return answered(signal, () => this.#callOrStart(provider, method, {}, signal, MAX_LIST_BYTES));
  }

  /** Starts an activity of the package that belongs to this action. @returns false if there is none. */
  async startActivity(packageName: string, action: string, signal: AbortSignal): Promise<boolean> {
    const output = await this.#adb.shell([["am", "start", "-a", action, "-p", packageName]], signal);
    return /^Starting: Intent/m.test(output) && !/^(?:Error|Exception|java\.)/m.test(output);
  }

  /** The fallback of CETP §3.3: calls again, which makes Android start the process, then opens the app. */
  async #callOrStart(provider: Provider, method: string, extras: Extras, signal: AbortSignal, maxBytes?: number): Promise<Answer> {
    const call = ["content", "call", "--uri", `content://${provider.authority}`, "--method", method, ...(await this.#words(extras))];
    const callOnce = async (): Promise<Answer | undefined> => readOutput(await this.#adb.shell([call], signal, maxBytes), provider, method);
    const answer = (await callOnce()) ?? (await callOnce());
    if (answer !== undefined) return answer;
    if (this.#canStartApps && (await this.#openApp(provider.packageName, signal))) {
      await delay(START_DELAY_MS, undefined, { signal });
      const afterStart = await callOnce();
      if (afterStart !== undefined) return afterStart;
    }
    return failure("PROVIDER_UNAVAILABLE", "Android does not start the provider. Open the app on the device, then try again.");
  }

  async #openApp(packageName: string, signal: AbortSignal): Promise<boolean> {
    if (performance.now() - (this.#openedAtMs.get(packageName) ?? -Infinity) < OPEN_INTERVAL_MS) return false;
    const resolved = await this.#adb.shell([["cmd", "package", "resolve-activity", "--brief", packageName]], signal);
    const component = resolved.split("\n").find((line) => line.startsWith(`${packageName}/`));
    if (component === undefined) return false;
    log(`${packageName} is opened on the device, since its provider does not start`);
    await this.#adb.shell([["am", "start", "-n", component.trim()]], signal);
    this.#openedAtMs.set(packageName, performance.now());
    return true;
  }

  /** `content` splits a binding at its colons. Since Android 11, those of the value need a backslash; before, it would stay in the value. */
  async #words(extras: Extras): Promise<string[]> {
    const entries = Object.entries(extras);
    if (entries.length === 0) return [];
    this.#escapesExtras ??= this.#findEscaping();
    // A failed attempt is not kept.
    const isEscaped = await this.#escapesExtras.catch((error: unknown) => {
      this.#escapesExtras = undefined;
      throw error;
    });
    return entries.flatMap(([key, value]) => ["--extra", `${key}:s:${isEscaped ? value.replaceAll(/[\\:]/g, String.raw`\$&`) : value}`]);
  }

  /** No provider has this authority, so nothing is called. An app that could know it would answer for all others. */
  async #findEscaping(): Promise<boolean> {
    const authority = `${randomUUID()}.cetp-bridge.invalid`;
    const words = ["content", "call", "--uri", `content://${authority}`, "--method", "none", "--extra", "key:s:a:b"];
    const output = await this.#adb.shell([words], deadline(PROBE_TIMEOUT_MS));
    if (output.includes("Binding not well formed")) return true;
    if (isNotFound(output, authority)) return false;
    throw new Error("The command `content` of the device does not run.");
  }
}

/** Reads the output of a call. @returns undefined if the process of the provider does not start. */
function readOutput(output: string, { authority }: Provider, method: string): Answer | undefined {
  const answer = readAnswer(output);
  if (answer !== undefined) return answer;
  if (/^Result: null$/m.test(output)) return failure("TOOL_NOT_FOUND", `The app does not know ${method}.`);
  if (/^Result: /m.test(output)) return failure("INTERNAL_ERROR", "The answer of the app cannot be read.");
  const [exception = ""] = /^(?:java|android)\.[\w.]+(?:Exception|Error)\b.*$/m.exec(output) ?? [];
  if (isNotFound(exception, authority) || exception.trim() === "android.os.DeadObjectException") return undefined;
  return failure(exception.includes("SecurityException") ? "PERMISSION_DENIED" : "INTERNAL_ERROR", exception || "There was no answer.");
}

/** True for the text of Android, not for that of an exception of an app. */
function isNotFound(output: string, authority: string): boolean {
  return output.split(/\r?\n/).includes(`java.lang.IllegalStateException: Could not find provider: ${authority}`);
}

async function answered(signal: AbortSignal, call: () => Promise<Answer>): Promise<Answer> {
  try {
    return await call();
  } catch (error) {
    if (error instanceof CommandError) return failure(error.code, error.message);
    if (error instanceof DeviceError) return failure("DEVICE_UNAVAILABLE", error.message);
    return signal.aborted ? failure("CANCELLED", "The call was cancelled.") : failure("INTERNAL_ERROR", (error as Error).message);
  }
}

function failure(code: string, message: string): Answer {
  return { status: "error", code, message };
}
