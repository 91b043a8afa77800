import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { MAIN } from "./sidecar.ts";

/** Only a hang reaches it. */
const WAIT_TIMEOUT_MS = 20_000;
export const CTRL_C = "\u0003";
export const ERASE_LINE = "\r\u001B[2K";
// oxlint-disable-next-line no-control-regex -- colours
const COLOURS = /\u001B\[(\d+)m/g;
/** Back to normal: all, the intensity, the colour. */
const COLOURS_OFF: ReadonlySet<string> = new Set(["0", "22", "39"]);

/** A sidecar on a terminal of its own, which `script` makes. Use with `await using`. */
export class TerminalRun implements AsyncDisposable {
  /** All that was written to the terminal, escapes included. */
  shown = "";
  readonly #script: ChildProcess;
  readonly #closed: Promise<unknown>;
  #isClosed = false;

  /**
   * @param env decides on colours: those variables that do are not taken from the test's own environment.
   * @param columns of the terminal; one that does not know how many it has says 0.
   */
  constructor(args: readonly string[], env: Readonly<Record<string, string>>, columns = 0) {
    const words = [process.execPath, MAIN, "--addr", "127.0.0.1:0", ...args];
    const quoted = words.map((word) => `'${word.replaceAll("'", String.raw`'\''`)}'`);
    // Node takes CI for a terminal without colours.
    const { NO_COLOR: _1, FORCE_COLOR: _2, NODE_DISABLE_COLORS: _3, CI: _4, ...inherited } = process.env;
    // `exec`: a shell that stays would get the Ctrl-C as well.
    this.#script = spawn("script", ["-qec", `stty cols ${columns}; exec ${quoted.join(" ")}`, "/dev/null"], {
      // `script` runs what SHELL names, which for a user of a service may be `nologin`.
      env: { ...inherited, SHELL: "/bin/sh", TERM: "xterm", ...env },
      stdio: ["pipe", "pipe", "inherit"],
    });
    this.#script.stdout?.setEncoding("utf8").on("data", (chunk: string) => (this.shown += chunk));
    // Not at its exit: what it has shown may still be in the pipe then.
    this.#closed = once(this.#script, "close").then(() => (this.#isClosed = true));
  }

  /** What the pattern finds in all that is shown, as soon as it does. */
  async waitFor(pattern: RegExp): Promise<RegExpExecArray> {
    const signal = AbortSignal.timeout(WAIT_TIMEOUT_MS);
    for (;;) {
      const found = pattern.exec(this.shown);
      if (found !== null) return found;
      if (this.#script.stdout === null || this.#isClosed || signal.aborted) {
        throw new Error(`${String(pattern)} is not shown:\n${this.shown}`);
      }
      await Promise.race([once(this.#script.stdout, "data", { signal }), this.#closed]).catch(() => undefined);
    }
  }

  /** Where the banner says that the endpoint is, once it is shown. */
  async url(): Promise<string> {
    const [, url = ""] = await this.waitFor(/ address .*?(http:\S+)\r\n/);
    return url;
  }

  /** What a reader sees in the end: without what was erased again. */
  get lines(): string[] {
    return this.shown.split("\r\n").map((line) => (line.split(ERASE_LINE).at(-1) ?? "").replace(/^\r/, ""));
  }

  /** Whether what is shown next begins a line of its own, in the colours that the terminal had before. */
  get isLeftClean(): boolean {
    const lastColour = [...this.shown.matchAll(COLOURS)].at(-1)?.[1] ?? "0";
    return this.lines.at(-1) === "" && COLOURS_OFF.has(lastColour);
  }

  type(keys: string): void {
    this.#script.stdin?.write(keys);
  }

  /** Ctrl-C, and the exit code. */
  interrupt(): Promise<number | null> {
    this.type(CTRL_C);
    return this.end();
  }

  /** The exit code, once it has ended by itself. */
  async end(): Promise<number | null> {
    const signal = AbortSignal.timeout(WAIT_TIMEOUT_MS);
    await Promise.race([this.#closed, once(signal, "abort")]);
    if (signal.aborted) throw new Error(`it has not ended:\n${this.shown}`);
    return this.#script.exitCode;
  }

  /** Nobody reads what is written to the terminal any more. */
  stopReading(): void {
    this.#script.stdout?.pause();
  }

  /** Closes the terminal; what runs on it hears so. */
  hangUp(): void {
    if (this.#script.exitCode === null) this.#script.kill("SIGKILL");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.hangUp();
    await this.#closed;
  }
}
