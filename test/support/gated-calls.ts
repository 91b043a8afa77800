import { writeFile } from "node:fs/promises";
import type { HttpCall, HttpReply } from "./http-client.ts";
import { type McpClient, toolCall } from "./mcp-client.ts";
import type { RunningSidecar } from "./running-sidecar.ts";
import { readStatus } from "./status.ts";
import { TempDir } from "./temp-dir.ts";

/** Returns the expected response of a `wait_for_file` call. */
export const LET_THROUGH = { content: [{ type: "text", text: "the file is there" }] };

/** Calls of the fixture's tool `wait_for_file`, each of which is answered when the test allows it. */
export class GatedCalls implements AsyncDisposable {
  readonly #sidecar: RunningSidecar;
  readonly #directory: TempDir;

  private constructor(sidecar: RunningSidecar, directory: TempDir) {
    this.#sidecar = sidecar;
    this.#directory = directory;
  }

  static async create(sidecar: RunningSidecar): Promise<GatedCalls> {
    return new GatedCalls(sidecar, await TempDir.create());
  }

  message(name: string): object {
    return toolCall("wait_for_file", { path: this.#directory.file(name) }, name);
  }

  post(client: McpClient, name: string, call?: HttpCall): Promise<HttpReply> {
    return client.post(this.message(name), call);
  }

  async letThrough(...names: readonly string[]): Promise<void> {
    for (const name of names) await writeFile(this.#directory.file(name), "");
  }

  /** Returns the names of the calls that have reached a server, in order. */
  get #reached(): string[] {
    return this.#sidecar.logLines.flatMap(({ msg }) => /^waiting for .*\/([^/]+)$/.exec(msg)?.[1] ?? []);
  }

  /** Waits for this many calls and returns their names. A server's stderr may be read later than its responses. */
  waitForReached(count: number): Promise<string[]> {
    return this.#sidecar.waitFor(() => (this.#reached.length >= count ? this.#reached : undefined), `${count} calls that the server has`);
  }

  /** Waits until this many requests are queued for the shared server. */
  async waitForWaiting(count: number): Promise<void> {
    while ((await readStatus(this.#sidecar)).lanes.shared.waiting !== count);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#directory[Symbol.asyncDispose]();
  }
}
