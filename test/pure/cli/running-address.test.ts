import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { runningAddress } from "../../../src/cli/running-address.ts";
import { TempDir } from "../../support/temp-dir.ts";

const CONTAINER = "pid:[4026532500]";
const MACHINE = "pid:[4026531836]";
/** Listens at the address in its first argument, and prints its port. */
const LISTEN = `import { createServer } from "node:net";
const server = createServer().listen({ port: 0, host: process.argv[2] }, () => console.log(server.address().port));`;

/** Real processes, and a root directory whose /proc has only these. */
class FakeContainer implements AsyncDisposable {
  readonly script: string;
  readonly #root: TempDir;
  readonly #children: ChildProcess[] = [];

  private constructor(root: TempDir, namespace: string) {
    this.#root = root;
    this.script = root.file("main.mjs");
    writeFileSync(this.script, LISTEN);
    mkdirSync(root.file("proc/self/ns"), { recursive: true });
    symlinkSync(namespace, root.file("proc/self/ns/pid"));
  }

  static async create(namespace = CONTAINER): Promise<FakeContainer> {
    return new FakeContainer(await TempDir.create(), namespace);
  }

  /** Starts a process that listens. @returns its port. */
  async start(
    host: string,
    {
      script = this.script,
      flags = [],
      env = {},
    }: { script?: string; flags?: readonly string[]; env?: Readonly<Record<string, string>> } = {},
  ): Promise<number> {
    const child = spawn(process.execPath, ["--no-warnings", ...flags, script, host], {
      stdio: ["ignore", "pipe", "inherit"],
      env: { ...process.env, ...env },
    });
    this.#children.push(child);
    const [port] = (await once(child.stdout, "data")) as [Buffer];
    symlinkSync(`/proc/${child.pid}`, this.#root.file(`proc/${child.pid}`));
    return Number(port);
  }

  find(environment: Readonly<Record<string, string>> = {}): ReturnType<typeof runningAddress> {
    return runningAddress({ script: this.script, environment, root: this.#root.path });
  }

  file(name: string): string {
    return this.#root.file(name);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const child of this.#children) {
      child.kill("SIGKILL");
      if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
    }
    await this.#root[Symbol.asyncDispose]();
  }
}

describe("the address of the sidecar in the same container", () => {
  it.each([
    ["127.0.0.1", "127.0.0.1"],
    ["127.0.0.2", "127.0.0.2"],
    ["0.0.0.0", undefined],
    ["::", undefined],
    ["::1", "0000:0000:0000:0000:0000:0000:0000:0001"],
  ])("a listener at %s is found", async (host, shown) => {
    await using container = await FakeContainer.create();
    const port = await container.start(host);
    expect(container.find()).toEqual({ host: shown, port });
  });

  it("a sidecar that was started by a symbolic link is found", async () => {
    await using container = await FakeContainer.create();
    const link = container.file("claw-mcp-stdio");
    symlinkSync(container.script, link);
    const port = await container.start("127.0.0.1", { script: link });
    expect(container.find()).toEqual({ host: "127.0.0.1", port });
  });

  it("nothing is found outside containers", async () => {
    await using container = await FakeContainer.create(MACHINE);
    await container.start("127.0.0.1");
    expect(container.find()).toBeUndefined();
  });

  it("nothing is found without a sidecar, or without /proc", async () => {
    await using container = await FakeContainer.create();
    const other = container.file("server.mjs");
    writeFileSync(other, LISTEN);
    await container.start("127.0.0.1", { script: other });
    expect(container.find()).toBeUndefined();
    expect(runningAddress({ script: container.script, environment: {}, root: container.file("none") })).toBeUndefined();
  });

  it("of two sidecars in a container the older one is found", async () => {
    await using container = await FakeContainer.create();
    const port = await container.start("127.0.0.1");
    await container.start("127.0.0.1");
    expect(container.find()).toEqual({ host: "127.0.0.1", port });
  });

  it("a sidecar with a flag of Node that has a value is found", async () => {
    await using container = await FakeContainer.create();
    const loaded = container.file("loaded.mjs");
    writeFileSync(loaded, "");
    const flags = ["--import", loaded];
    const port = await container.start("127.0.0.1", { flags });
    expect(container.find()).toEqual({ host: "127.0.0.1", port });
  });

  it("a variable of the whole container does not hide the address of a flag", async () => {
    await using container = await FakeContainer.create();
    const env = { CLAW_MCP_STDIO_PORT: "8080" };
    const port = await container.start("127.0.0.1", { env });
    expect(container.find(env)).toEqual({ host: "127.0.0.1", port });
  });

  it.each(["CLAW_MCP_STDIO_PORT", "CLAW_MCP_STDIO_ADDR"])("%s of the health check itself wins", async (name) => {
    await using container = await FakeContainer.create();
    await container.start("127.0.0.1", { env: { [name]: ":8080" } });
    expect(container.find({ [name]: ":8081" })).toBeUndefined();
  });
});
