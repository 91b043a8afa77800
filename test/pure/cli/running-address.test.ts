import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { expect, it } from "vitest";
import { runningAddress } from "../../../src/cli/healthcheck.ts";
import { TempDir } from "../../support/temp-dir.ts";

const CONTAINER = "pid:[4026532500]";
const MACHINE = "pid:[4026531836]";

interface Process {
  readonly pid: number;
  readonly words?: readonly string[];
  readonly environ?: string;
}

async function find(
  processes: readonly Process[],
  environment: Readonly<Record<string, string>> = {},
  namespace = CONTAINER,
): Promise<ReturnType<typeof runningAddress>> {
  await using root = await TempDir.create();
  const script = root.file("main.mjs");
  writeFileSync(script, "");
  symlinkSync(script, root.file("link"));
  mkdirSync(root.file("proc/self/ns"), { recursive: true });
  symlinkSync(namespace, root.file("proc/self/ns/pid"));
  for (const { pid, words = ["main.mjs"], environ = "" } of processes) {
    const file = (name: string): string => root.file(`proc/${pid}/${name}`);
    mkdirSync(file(""), { recursive: true });
    writeFileSync(file("cmdline"), ["node", ...words, ""].join("\0"));
    writeFileSync(file("environ"), `A=1\0${environ}\0`);
    symlinkSync(root.path, file("cwd"));
  }
  return runningAddress(script, environment, root.path);
}

it.each<[what: string, process: Omit<Process, "pid">, host: string | undefined, port: number]>([
  ["with an address from its flags", { words: ["main.mjs", "--addr", "127.0.0.2:9000", "--", "server"] }, "127.0.0.2", 9000],
  ["with one from its variables", { environ: "CLAW_MCP_STDIO_ADDR=[::1]:9000" }, "::1", 9000],
  ["at all interfaces", { words: ["main.mjs", "serve", "--host", "*"] }, undefined, 8080],
  ["with another address for operators", { words: ["main.mjs", "--admin-addr", "127.0.0.1:9000", "server"] }, "127.0.0.1", 8080],
  ["that was started by a symbolic link", { words: ["link", "--port=9000"] }, "127.0.0.1", 9000],
  ["that was started after a flag with a value", { words: ["--import", "x.mjs", "main.mjs", "-p", "9000"] }, "127.0.0.1", 9000],
  ["that was started without the ending of its script", { words: ["main", "--port", "9000"] }, "127.0.0.1", 9000],
])("a sidecar %s is found", async (_what, process, host, port) => {
  expect(await find([{ pid: 9, ...process }])).toMatchObject({ host, port });
});

it("nothing is found outside containers, or without a sidecar", async () => {
  expect(await find([{ pid: 9 }], {}, MACHINE)).toBeUndefined();
  expect(await find([{ pid: 9, words: ["server.mjs"] }])).toBeUndefined();
  expect(await find([{ pid: 9, words: ["main.mjs", "-healthcheck"] }])).toBeUndefined();
  expect(await find([])).toBeUndefined();
});

it("of two sidecars in a container the first one is found", async () => {
  expect(await find([{ pid: 10 }, { pid: 9, words: ["main.mjs", "--port", "80"] }])).toMatchObject({ host: "127.0.0.1", port: 80 });
});

it.each(["CLAW_MCP_STDIO_PORT", "CLAW_MCP_STDIO_ADDR"])(
  "%s of the health check itself wins, unless the sidecar has the same",
  async (name) => {
    const sidecar = { pid: 9, environ: `${name}=:8080` };
    expect(await find([sidecar], { [name]: ":8081" })).toBeUndefined();
    expect(await find([sidecar], { [name]: ":8080" })).toMatchObject({ port: 8080 });
  },
);
