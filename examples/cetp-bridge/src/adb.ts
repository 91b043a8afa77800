import { execa } from "execa";
import pLimit, { type LimitFunction } from "p-limit";
import { cleanLine } from "./text.ts";

/** Processes of adb at a time, for all providers together. */
const MAX_PROCESSES = 8;
/** More calls than these do not wait. */
const MAX_WAITING = 64;
/** A Bundle is at most 1 MB of UTF-16, as the binder of Android carries no more. */
const MAX_OUTPUT_BYTES = 4 * 1024 * 1024;
/** adb sends a command with its length in four hexadecimal digits. The rest is for the words around the command. */
const MAX_COMMAND_BYTES = 65_000;

/** The device cannot be used. */
export class DeviceError extends Error {}

/** A command did not end as it should. */
export class CommandError extends Error {
  readonly code: "TIMEOUT" | "ANSWER_TOO_LARGE" | "INVALID_ARGS" | "BUSY" | "CANCELLED";
  constructor(code: CommandError["code"], message: string) {
    super(message);
    this.code = code;
  }
}

export interface RunOptions {
  readonly timeoutMs: number;
  readonly signal?: AbortSignal | undefined;
}

export interface Output {
  readonly stdout: Buffer;
  readonly stderr: string;
}

/** Runs the `adb` client. The device is that of ANDROID_SERIAL, which adb reads itself. */
export class Adb {
  readonly #path: string;
  readonly #limit: LimitFunction = pLimit(MAX_PROCESSES);

  constructor(path: string) {
    this.#path = path;
  }

  /**
   * Runs a command in the shell of the device. All words are quoted.
   * @throws {DeviceError} @throws {CommandError}
   */
  async shell(words: readonly string[], options: RunOptions): Promise<string> {
    const { stdout, stderr } = await this.#runOnDevice("shell", [words], options);
    return `${stdout.toString()}\n${stderr}`;
  }

  /** Runs commands one after the other, and returns what they write. */
  async shellAll(commands: readonly (readonly string[])[], options: RunOptions): Promise<string> {
    return (await this.#runOnDevice("shell", commands, options)).stdout.toString();
  }

  /** Runs a command whose output is not text. */
  async execOut(words: readonly string[], options: RunOptions): Promise<Buffer> {
    return (await this.#runOnDevice("exec-out", [words], options)).stdout;
  }

  /** Runs adb itself. @throws {Error} with the code ENOENT if there is no adb. */
  async run(args: readonly string[], { timeoutMs, signal }: RunOptions): Promise<Output> {
    const result = await execa(this.#path, args, {
      stdin: "ignore",
      encoding: "buffer",
      reject: false,
      timeout: timeoutMs,
      forceKillAfterDelay: 1000,
      maxBuffer: MAX_OUTPUT_BYTES,
      stripFinalNewline: false,
      ...(signal === undefined ? {} : { cancelSignal: signal }),
    });
    const stderr = Buffer.from(result.stderr).toString();
    if (result.isCanceled) throw new CommandError("CANCELLED", "The call was cancelled.");
    if (result.timedOut) throw new CommandError("TIMEOUT", `There was no answer within ${timeoutMs} ms.`);
    if (result.isMaxBuffer) throw new CommandError("ANSWER_TOO_LARGE", `The answer is longer than ${MAX_OUTPUT_BYTES} bytes.`);
    if (result.code !== undefined) throw Object.assign(new Error(cleanLine(result.shortMessage ?? "", 200)), { code: result.code });
    // Commands of the device write to stderr too, but never begin with a line of adb.
    const problem = stderr.split("\n").findLast((line) => /^(?:adb|error): /.test(line));
    if (result.exitCode !== 0 && problem !== undefined && /^(?:adb|error|\*)/.test(stderr))
      throw new DeviceError(cleanLine(problem.replace(/^(?:(?:adb|error): )+/, ""), 200));
    return { stdout: Buffer.from(result.stdout), stderr };
  }

  async #runOnDevice(mode: "shell" | "exec-out", commands: readonly (readonly string[])[], options: RunOptions): Promise<Output> {
    const command = commands.map((words) => words.map(quote).join(" ")).join("; ");
    const bytes = Buffer.byteLength(command);
    if (bytes > MAX_COMMAND_BYTES)
      throw new CommandError("INVALID_ARGS", `The arguments make a command of ${bytes} bytes; adb accepts ${MAX_COMMAND_BYTES}.`);
    if (this.#limit.pendingCount >= MAX_WAITING) throw new CommandError("BUSY", "Too many calls wait for the device.");
    return this.#limit(() => this.run([mode, command], options));
  }
}

/** Quotes a word for the shell of the device, so that it stays one word whatever it has. */
export function quote(word: string): string {
  if (word.includes("\0")) throw new CommandError("INVALID_ARGS", "A command cannot have a NUL character.");
  return /^[\w./:@%+=,-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}
