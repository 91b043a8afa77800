import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { expect, it } from "vitest";
import { freePort } from "./bench.ts";

const ROOT = fileURLToPath(new URL("../../../", import.meta.url));

/** Runs a command in a process group of its own, since npm does not pass signals on. */
class Terminal implements AsyncDisposable {
  readonly #shell: ChildProcess;
  readonly #ended: Promise<unknown>;
  #output = "";

  constructor(command: string, env: Readonly<Record<string, string>>) {
    this.#shell = spawn("sh", ["-c", `${command} 2>&1`], {
      cwd: ROOT,
      env: { PATH: process.env["PATH"], HOME: process.env["HOME"], ...env },
      stdio: ["ignore", "pipe", "inherit"],
      detached: true,
    });
    this.#ended = once(this.#shell, "close");
  }

  async until(text: string): Promise<void> {
    if (this.#shell.stdout === null) throw new Error("a pipe expected");
    for await (const line of createInterface({ input: this.#shell.stdout })) {
      this.#output += `${line}\n`;
      if (line.includes(text)) {
        this.#shell.stdout.resume();
        return;
      }
    }
    throw new Error(`end before ${text}:\n${this.#output}`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#shell.pid !== undefined && this.#shell.exitCode === null) process.kill(-this.#shell.pid, "SIGTERM");
    await this.#ended;
  }
}

it("the commands of the README start both programs, and show an answer of the device", async () => {
  const readme = readFileSync(new URL("../README.md", import.meta.url), "utf8");
  const [, tryIt = ""] = /## Try it([\s\S]*?)\n## /.exec(readme) ?? [];
  const [installAndStart = "", device = "", call = "", shown = ""] = [...tryIt.matchAll(/```\w+\n([\s\S]*?)\n```/g)].map(
    ([, block = ""]) => block,
  );
  const start = installAndStart.split("\n").at(-1) ?? "";
  const [port, gatewayPort] = [await freePort(), await freePort()];
  await using gateway = new Terminal(start, { PORT: String(port), GATEWAY_ADDR: `127.0.0.1:${gatewayPort}` });
  await gateway.until("mcp server ready");
  await using desk = new Terminal(device, { GATEWAY_URL: `ws://127.0.0.1:${gatewayPort}` });
  await desk.until("registered 2 of 2 tools");
  const { stdout } = await promisify(execFile)("sh", ["-c", call.replace("8080", String(port))], { cwd: ROOT });
  const varying = (text: string): string => text.trim().replaceAll(/(\\":\\")[^"]*(\\")/g, "$1…$2");
  expect(varying(stdout)).toBe(varying(shown));
});
