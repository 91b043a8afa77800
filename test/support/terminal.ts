import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { MAIN } from "./sidecar.ts";

/** Only a hang reaches it. */
const WAIT_TIMEOUT_MS = 20_000;
const CTRL_C = "\u0003";

/** A sidecar on a terminal of its own, which `script` makes. Use with `await using`. */
export class TerminalRun implements AsyncDisposable {
  /** All that was written to the terminal, escapes included. */
  shown = "";
  readonly #script: ChildProcess;
  readonly #closed: Promise<unknown>;

  /** @param env decides on colours: those variables that do are not taken from the test's own environment. */
  constructor(args: readonly string[], env: Readonly<Record<string, string>>) {
    const words = [process.execPath, MAIN, "--addr", "127.0.0.1:0", ...args];
    const quoted = words.map((word) => `'${word.replaceAll("'", String.raw`'\''`)}'`);
    // Node takes CI for a terminal without colours.
    const { NO_COLOR: _noColor, FORCE_COLOR: _forceColor, CI: _ci, ...inherited } = process.env;
    // `exec`: a shell that stays would get the Ctrl-C as well.
    this.#script = spawn("script", ["-qec", `exec ${quoted.join(" ")}`, "/dev/null"], {
      env: { ...inherited, TERM: "xterm", ...env },
      stdio: ["pipe", "pipe", "inherit"],
    });
    this.#script.stdout?.setEncoding("utf8").on("data", (chunk: string) => (this.shown += chunk));
    this.#closed = once(this.#script, "close");
  }

  /** What the pattern finds in all that is shown, as soon as it does. */
  async waitFor(pattern: RegExp): Promise<RegExpExecArray> {
    const signal = AbortSignal.timeout(WAIT_TIMEOUT_MS);
    for (;;) {
      const found = pattern.exec(this.shown);
      if (found !== null) return found;
      if (this.#script.stdout === null || this.#script.exitCode !== null || signal.aborted) {
        throw new Error(`${String(pattern)} is not shown:\n${this.shown}`);
      }
      await Promise.race([once(this.#script.stdout, "data", { signal }), this.#closed]).catch(() => undefined);
    }
  }

  /** Ctrl-C, and the exit code. */
  async interrupt(): Promise<number | null> {
    this.#script.stdin?.write(CTRL_C);
    await this.#closed;
    return this.#script.exitCode;
  }

  /** What is left running hears that the terminal is gone. */
  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#script.exitCode === null) this.#script.kill("SIGKILL");
    await this.#closed;
  }
}
