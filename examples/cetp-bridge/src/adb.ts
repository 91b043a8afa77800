import { execa } from "execa";
import pLimit, { type LimitFunction } from "p-limit";
import { cleanLine } from "./text.ts";

/** Processes of adb at a time. More commands than MAX_WAITING do not wait for one. */
const MAX_PROCESSES = 8;
const MAX_WAITING = 64;
/** The binder of Android carries at most 1 MB of UTF-16. */
const MAX_OUTPUT_BYTES = 4 * 1024 * 1024;
/** adb sends the length of a service in four hexadecimal digits, with the name of the service and of the terminal in it. */
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

export type Words = readonly string[];

interface Output {
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

  /** Runs commands in the shell of the device, one after the other. @returns all their output. @throws {DeviceError} @throws {CommandError} */
  async shell(commands: readonly Words[], options: RunOptions): Promise<string> {
    const { stdout, stderr } = await this.#onDevice("shell", commands, options);
    return `${stdout.toString()}\n${stderr}`;
  }

  /** Runs a command whose output is not text. */
  async execOut(words: Words, options: RunOptions): Promise<Buffer> {
    return (await this.#onDevice("exec-out", [words], options)).stdout;
  }

  /** Runs adb itself. @throws {Error} with the code ENOENT if there is no adb. */
  async run(args: Words, { timeoutMs, signal }: RunOptions): Promise<Output> {
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
    if (result.isCanceled) throw new CommandError("CANCELLED", "The call was cancelled.");
    if (result.timedOut) throw new CommandError("TIMEOUT", `There was no answer within ${timeoutMs} ms.`);
    if (result.isMaxBuffer) throw new CommandError("ANSWER_TOO_LARGE", `The answer is longer than ${MAX_OUTPUT_BYTES} bytes.`);
    if (result.code !== undefined) throw Object.assign(new Error(`adb does not run: ${result.code}`), { code: result.code });
    const stderr = Buffer.from(result.stderr).toString();
    // Commands of the device write to stderr too, but never begin with a line of adb.
    const problem = stderr.split("\n").findLast((line) => /^(?:adb|error): /.test(line));
    if (result.exitCode !== 0 && problem !== undefined && /^(?:adb|error|\*)/.test(stderr))
      throw new DeviceError(cleanLine(problem.replace(/^(?:(?:adb|error): )+/, ""), 200));
    return { stdout: Buffer.from(result.stdout), stderr };
  }

  async #onDevice(mode: "shell" | "exec-out", commands: readonly Words[], options: RunOptions): Promise<Output> {
    const command = commands.map((words) => words.map(quote).join(" ")).join("; ");
    const bytes = Buffer.byteLength(command);
    if (bytes > MAX_COMMAND_BYTES)
      throw new CommandError("INVALID_ARGS", `The arguments make a command of ${bytes} bytes; adb accepts ${MAX_COMMAND_BYTES}.`);
    if (this.#limit.pendingCount >= MAX_WAITING) throw new CommandError("BUSY", "Too many calls wait for the device.");
    return this.#limit(() => this.run([mode, command], options));
  }
}

/** Quotes a word for the shell of the device, so that it stays one word whatever it has. */
function quote(word: string): string {
  if (word.includes("\0")) throw new CommandError("INVALID_ARGS", "A command cannot have a NUL character.");
  return /^[\w./:@%+=,-]+$/.test(word) ? word : `'${word.replaceAll("'", String.raw`'\''`)}'`;
}
