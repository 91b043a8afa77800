import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { Sidecar } from "../../../test/support/sidecar.ts";

export const GATEWAY = fileURLToPath(new URL("../src/main.ts", import.meta.url));
const DEVICE = fileURLToPath(new URL("../src/device/main.ts", import.meta.url));

/** The gateway behind a real sidecar. */
export class GatewayServer implements AsyncDisposable {
  readonly sidecar: Sidecar;
  /** The port for devices. */
  readonly url: string;

  private constructor(sidecar: Sidecar, url: string) {
    this.sidecar = sidecar;
    this.url = url;
  }

  /** Uses no flag of the sidecar, as users forget them. @param env settings of the gateway. */
  static async start(env: Readonly<Record<string, string>> = {}): Promise<GatewayServer> {
    const sidecar = await Sidecar.start({ command: [process.execPath, GATEWAY], env: { GATEWAY_ADDR: "127.0.0.1:0", ...env } });
    const find = (): string | undefined =>
      sidecar.logLines.map(({ msg }) => /^gateway listening at (.*)$/.exec(msg)?.[1]).find((url) => url !== undefined);
    return new GatewayServer(sidecar, await sidecar.waitFor(find, "the port of the gateway"));
  }

  /** Waits for a line of the gateway, past or future. */
  async logged(pattern: RegExp): Promise<string> {
    return this.sidecar.waitFor(() => this.sidecar.logLines.map(({ msg }) => msg).find((line) => pattern.test(line)), String(pattern));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.sidecar[Symbol.asyncDispose]();
  }
}

/** A process that ends with the test, and the lines that it has written to stderr. */
export class NodeProgram implements AsyncDisposable {
  readonly process: ChildProcess;
  readonly lines: string[] = [];
  readonly exited: Promise<number | null>;
  readonly #onLine = new Set<() => void>();
  #isEnded = false;

  constructor(file: string, env: Readonly<Record<string, string>>, args: readonly string[] = []) {
    this.process = spawn(process.execPath, [file, ...args], {
      env: { PATH: process.env["PATH"], ...env },
      stdio: ["pipe", "ignore", "pipe"],
    });
    const { stderr } = this.process;
    if (stderr === null) throw new Error("a pipe expected");
    createInterface({ input: stderr }).on("line", (line) => {
      this.lines.push(line);
      for (const notify of this.#onLine) notify();
    });
    this.exited = once(this.process, "close").then(([code]) => {
      this.#isEnded = true;
      return code as number | null;
    });
  }

  static device(env: Readonly<Record<string, string>>): NodeProgram {
    return new NodeProgram(DEVICE, env);
  }

  /** Waits for a line, past or future. @param count the number of such lines, of which this is the last. @throws Error if the program ends before. */
  async line(pattern: RegExp, count = 1): Promise<string> {
    for (;;) {
      const found = this.lines.filter((line) => pattern.test(line))[count - 1];
      if (found !== undefined) return found;
      if (this.#isEnded) throw new Error(`exit before ${String(pattern)}:\n${this.lines.join("\n")}`);
      await Promise.race([new Promise<void>((resolve) => this.#onLine.add(resolve)), this.exited]);
      this.#onLine.clear();
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.process.kill();
    await this.exited;
  }
}
