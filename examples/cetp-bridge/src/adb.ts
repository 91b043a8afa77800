import { execa } from "execa";
import { cleanLine } from "./text.ts";

/** The most that a command may print, if it has no limit of its own. The binder of Android carries at most 1 MB of UTF-16. */
const MAX_OUTPUT_BYTES = 4 * 1024 * 1024;
/** adb sends the length of a service in four hexadecimal digits, with the name of the service and of the terminal in it. */
const MAX_COMMAND_BYTES = 65_000;

/** The device cannot be used. */
export class DeviceError extends Error {}

/** A command did not end as it should. */
export class CommandError extends Error {
  readonly code: "TIMEOUT" | "ANSWER_TOO_LARGE" | "INVALID_ARGS";
  constructor(code: CommandError["code"], message: string) {
    super(message);
    this.code = code;
  }
}

/** Returns a signal that aborts with a {@link CommandError} after the time, or with the other signal. */
export function deadline(timeoutMs: number, other?: AbortSignal): AbortSignal {
  const timeout = new AbortController();
  setTimeout(() => timeout.abort(new CommandError("TIMEOUT", `There was no answer within ${timeoutMs} ms.`)), timeoutMs).unref();
  return other === undefined ? timeout.signal : AbortSignal.any([timeout.signal, other]);
}

export type Words = readonly string[];

interface Output {
  readonly stdout: Buffer;
  readonly stderr: string;
}

/** Runs the `adb` client. The device is that of ANDROID_SERIAL, which adb reads itself. All methods reject with the reason of the signal. */
export class Adb {
  readonly #path: string;
  readonly #running = new Set<number>();

  constructor(path: string) {
    this.#path = path;
  }

  /** Runs commands in the shell of the device, one after the other. @returns all their output. @throws {DeviceError} @throws {CommandError} */
  async shell(commands: readonly Words[], signal: AbortSignal, maxBytes?: number): Promise<string> {
    const { stdout, stderr } = await this.run(["shell", commandOf(commands)], signal, maxBytes);
    return `${stdout.toString()}\n${stderr}`;
  }

  /** Runs a command whose output is not text. */
  async execOut(words: Words, signal: AbortSignal, maxBytes: number): Promise<Buffer> {
    return (await this.run(["exec-out", commandOf([words])], signal, maxBytes)).stdout;
  }

  /** Runs adb itself, and ends it as soon as it has printed more than the limit. @throws {Error} with the code ENOENT if there is no adb. */
  async run(args: Words, signal: AbortSignal, maxBytes = MAX_OUTPUT_BYTES): Promise<Output> {
    signal.throwIfAborted();
    const child = execa(this.#path, args, {
      stdin: "ignore",
      encoding: "buffer",
      reject: false,
      maxBuffer: maxBytes,
      stripFinalNewline: false,
      // ADB may be a script with processes of its own. A group can be ended as a whole.
      detached: true,
    });
    const { pid = 0 } = child;
    this.#running.add(pid);
    const end = async () => {
      const { stdout, stderr, exitCode, code, isMaxBuffer } = await child;
      this.#running.delete(pid);
      return { stdout, stderr, exitCode, code, isMaxBuffer };
    };
    const aborted = Promise.withResolvers<never>();
    const abort = (): void => {
      killGroup(pid);
      aborted.reject(signal.reason as Error);
    };
    signal.addEventListener("abort", abort, { once: true });
    // Not `child` itself: to compare the type of execa's result with another takes the compiler seconds.
    const result = await Promise.race([end(), aborted.promise]).finally(() => signal.removeEventListener("abort", abort));
    if (result.isMaxBuffer) {
      killGroup(pid);
      throw new CommandError("ANSWER_TOO_LARGE", `The answer is longer than ${maxBytes} bytes.`);
    }
    if (result.code !== undefined) throw Object.assign(new Error(`adb does not run: ${result.code}`), { code: result.code });
    const stderr = Buffer.from(result.stderr).toString();
    // Commands of the device write to stderr too, but never begin with a line of adb.
    if (result.exitCode !== 0 && /^(?:adb|error|\*)/.test(stderr)) {
      const problem = stderr.split("\n").findLast((line) => /^(?:adb|error): /.test(line));
      if (problem !== undefined) throw new DeviceError(cleanLine(problem.replace(/^(?:(?:adb|error): )+/, ""), 200));
    }
    return { stdout: Buffer.from(result.stdout), stderr };
  }

  /** Ends all processes. */
  kill(): void {
    for (const pid of this.#running) killGroup(pid);
  }
}

/** SIGKILL, since what hangs may ignore other signals. */
function killGroup(pid: number): void {
  try {
    // 0 would be our own group.
    if (pid > 1) process.kill(-pid, "SIGKILL");
  } catch {
    // It has ended.
  }
}

/** @throws {CommandError} if adb cannot send so many. */
export function checkBytes(bytes: number): void {
  if (bytes > MAX_COMMAND_BYTES)
    throw new CommandError("INVALID_ARGS", `The arguments make a command of ${bytes} bytes; adb accepts ${MAX_COMMAND_BYTES}.`);
}

function commandOf(commands: readonly Words[]): string {
  const command = commands.map((words) => words.map(quote).join(" ")).join("; ");
  checkBytes(Buffer.byteLength(command));
  return command;
}

/** Quotes a word for the shell of the device, so that it stays one word whatever it has. */
function quote(word: string): string {
  if (word.includes("\0")) throw new CommandError("INVALID_ARGS", "A command cannot have a NUL character.");
  return /^[\w./:@%+=,-]+$/.test(word) ? word : `'${word.replaceAll("'", String.raw`'\''`)}'`;
}
