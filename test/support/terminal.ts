import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { MAIN } from "./sidecar.ts";
import { WAIT_TIMEOUT_MS } from "./changes.ts";

export const CTRL_C = "\u0003";
export const ERASE_LINE = "\r\u001B[2K";
// oxlint-disable-next-line no-control-regex -- colours
const COLOURS = /\u001B\[(\d+)m/g;
/** Resets everything, the intensity or the colour. */
const COLOURS_OFF: ReadonlySet<string> = new Set(["0", "22", "39"]);

/** A program on a terminal of its own, which `script` makes. Use with `await using`. */
export class TerminalRun implements AsyncDisposable {
  /** All output on the terminal, including escape sequences. */
  shown = "";
  readonly #script: ChildProcess;
  readonly #closed: Promise<unknown>;
  #isClosed = false;

  /**
   * @param env decides on colours: the test's own variables for colours are removed.
   * @param columns of the terminal; 0 stands for an unknown number.
   * @param stdoutFile the file for stdout, so that only stderr is the terminal; undefined for the terminal.
   */
  constructor(words: readonly string[], env: Readonly<Record<string, string>>, columns = 0, stdoutFile?: string) {
    const quoted = words.map((word) => `'${word.replaceAll("'", String.raw`'\''`)}'`);
    if (stdoutFile !== undefined) quoted.push(`> '${stdoutFile}'`);
    // Node takes CI for a terminal without colours.
    const { NO_COLOR: _1, FORCE_COLOR: _2, NODE_DISABLE_COLORS: _3, CI: _4, ...inherited } = process.env;
    // `exec`: a shell that stays would get the Ctrl-C as well.
    this.#script = spawn("script", ["-qec", `stty cols ${columns}; exec ${quoted.join(" ")}`, "/dev/null"], {
      // `script` runs the shell in SHELL, which may be `nologin` for a service user.
      env: { ...inherited, SHELL: "/bin/sh", TERM: "xterm", ...env },
      stdio: ["pipe", "pipe", "inherit"],
    });
    this.#script.stdout?.setEncoding("utf8").on("data", (chunk: string) => (this.shown += chunk));
    // Not at the exit: the last output may still be in the pipe then.
    this.#closed = once(this.#script, "close").then(() => (this.#isClosed = true));
  }

  /** Starts a sidecar, at a free port. The other parameters are those of the constructor. */
  static sidecar(args: readonly string[], env: Readonly<Record<string, string>>, columns?: number, stdoutFile?: string): TerminalRun {
    return new TerminalRun([process.execPath, MAIN, "--addr", "127.0.0.1:0", ...args], env, columns, stdoutFile);
  }

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

  /** Returns the endpoint's URL in the banner, once it is shown. */
  async url(): Promise<string> {
    const [, url = ""] = await this.waitFor(/ address .*?(http:\S+)\r\n/);
    return url;
  }

  /** The text that a reader sees in the end, without erased text. */
  get lines(): string[] {
    return this.shown.split("\r\n").map((line) => (line.split(ERASE_LINE).at(-1) ?? "").replace(/^\r/, ""));
  }

  /** True if the next output begins a new line, with the colours that the terminal had before. */
  get isLeftClean(): boolean {
    const lastColour = [...this.shown.matchAll(COLOURS)].at(-1)?.[1] ?? "0";
    return this.lines.at(-1) === "" && COLOURS_OFF.has(lastColour);
  }

  type(keys: string): void {
    this.#script.stdin?.write(keys);
  }

  interrupt(): Promise<number | null> {
    this.type(CTRL_C);
    return this.end();
  }

  async end(): Promise<number | null> {
    const signal = AbortSignal.timeout(WAIT_TIMEOUT_MS);
    await Promise.race([this.#closed, once(signal, "abort")]);
    if (signal.aborted) throw new Error(`it has not ended:\n${this.shown}`);
    return this.#script.exitCode;
  }

  /** Stops reading the output of the terminal. */
  stopReading(): void {
    this.#script.stdout?.pause();
  }

  /** Closes the terminal, so that its programs get SIGHUP. */
  hangUp(): void {
    if (this.#script.exitCode === null) this.#script.kill("SIGKILL");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.hangUp();
    await this.#closed;
  }
}
