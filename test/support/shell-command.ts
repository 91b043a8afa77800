import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { ROOT } from "./markdown.ts";

/** A command of a document, run in the root of the repository. Use with `await using`: it ends with all its processes, since npm does not pass signals on. */
export class ShellCommand implements AsyncDisposable {
  readonly #shell: ChildProcess;
  readonly #ended: Promise<unknown>;
  #output = "";
  readonly #onLine = new Set<() => void>();

  constructor(command: string, env: NodeJS.ProcessEnv) {
    const shell = spawn("sh", ["-c", `exec 2>&1; ${command}`], { cwd: ROOT, env, stdio: ["ignore", "pipe", "inherit"], detached: true });
    this.#shell = shell;
    this.#ended = once(shell, "close");
    createInterface({ input: shell.stdout }).on("line", (line) => {
      this.#output += `${line}\n`;
      for (const notify of this.#onLine) notify();
    });
  }

  get output(): string {
    return this.#output;
  }

  /** Waits for output, past or future. */
  async untilOutput(text: string): Promise<void> {
    while (!this.#output.includes(text)) {
      const next = new Promise<void>((resolve) => this.#onLine.add(resolve));
      await Promise.race([next, this.#ended]);
      this.#onLine.clear();
      if (!this.#isRunning && !this.#output.includes(text)) throw new Error(`exit before "${text}":\n${this.#output}`);
    }
  }

  get #isRunning(): boolean {
    return this.#shell.exitCode === null && this.#shell.signalCode === null;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#shell.pid !== undefined && this.#isRunning) process.kill(-this.#shell.pid, "SIGTERM");
    await this.#ended;
  }
}
