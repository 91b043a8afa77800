import { writeFile } from "node:fs/promises";
import { DiscoveryClient } from "./discovery-client.ts";
import { type ListedTool, ListedTools, listedTool } from "./listed-tools.ts";
import { HttpBench } from "./http-bench.ts";
import type { StartOptions } from "./running-sidecar.ts";
import { FIXTURE } from "./sidecar.ts";
import { TempDir } from "./temp-dir.ts";

/** Tools of the fixture that tests need themselves. */
const OWN_TOOLS = ["lines", "where", "hanging"].map((name) => listedTool(name));

/** A fixture whose tools a test rewrites, and the descriptor of its tools at the time of the review. */
export class PinnedTools implements AsyncDisposable {
  readonly #listed: ListedTools;
  readonly #directory: TempDir;

  private constructor(listed: ListedTools, directory: TempDir) {
    this.#listed = listed;
    this.#directory = directory;
  }

  /** Lists and reviews these tools, as a pod's discovery client would. */
  static async review(...tools: readonly ListedTool[]): Promise<PinnedTools> {
    // That client reads one page.
    const pinned = new PinnedTools(await ListedTools.create([...tools, ...OWN_TOOLS]), await TempDir.create());
    await using sidecar = await HttpBench.start({ env: pinned.env });
    const client = new DiscoveryClient({
      origin: sidecar.origin,
      service: "fixture",
      command: "node",
      args: [FIXTURE],
      wrapperImage: "image",
    });
    await writeFile(pinned.path, JSON.stringify(await client.discover()));
    return pinned;
  }

  get path(): string {
    return this.#directory.file("fixture.claw-describe.json");
  }

  get env(): Readonly<Record<string, string>> {
    return this.#listed.env;
  }

  list(...tools: readonly ListedTool[]): Promise<void> {
    return this.#listed.list(tools, OWN_TOOLS);
  }

  start({ flags = [], env = {}, ...options }: StartOptions = {}): Promise<HttpBench> {
    return HttpBench.start({
      ...options,
      flags: ["--descriptor", this.path, "--restart-backoff-ms", "1", ...flags],
      env: { ...env, ...this.env },
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#directory[Symbol.asyncDispose]();
    await this.#listed[Symbol.asyncDispose]();
  }
}
