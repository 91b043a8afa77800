import { spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, openSync, readFileSync } from "node:fs";
import { text } from "node:stream/consumers";
import { expect, it } from "vitest";
import { MAIN, runMain } from "../support/sidecar.ts";

const PACKAGE = JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8")) as {
  readonly version: string;
  readonly engines: { readonly node: string };
};

function runOnNode(nodeVersion: string): ReturnType<typeof runMain> {
  const source = `Object.defineProperty(process, "versions", { value: { node: "${nodeVersion}" } })`;
  return runMain(["--version"], { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(source)}` });
}

it.each([
  // The help comes before invalid options.
  { words: "--port x --help=all", shows: ["\nGeneral:\n", "\nLogs:\n", "CLAW_MCP_STDIO_REPLAY_MAX_BYTES"] },
  { words: "help all", shows: ["\nGeneral:\n", "\nLogs:\n", "CLAW_MCP_STDIO_REPLAY_MAX_BYTES"] },
  { words: "-h", shows: ["All of them: claw-mcp-stdio --help all\n"] },
  { words: "serve --help", shows: ["All of them: claw-mcp-stdio --help all\n"] },
  { words: "help discover", shows: ["\n  --check FILE\n", "3 --check found differences"] },
  { words: "discover --help", shows: ["\n  --check FILE\n", "3 --check found differences"] },
])("the words $words show their help", async ({ words, shows }) => {
  const { code, stdout, stderr } = await runMain(words.split(" "), { CLAW_MCP_STDIO_PORT: "y" });
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  for (const part of shows) expect(stdout).toContain(part);
});

it("no word at all prints the two commonest lines, with exit code 2", async () => {
  const { code, stdout, stderr } = await runMain([]);
  expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
  expect(stderr.split("\n").length).toBeLessThan(9);
  for (const line of ["claw-mcp-stdio -- npx -y ", "claw-mcp-stdio --help\n"]) expect(stderr).toContain(`  ${line}`);
});

it("the word serve is optional, and -p is the port", async () => {
  for (const words of [["serve"], []]) {
    expect(JSON.parse((await runMain([...words, "--check-config=json", "-p", "9000", "--", "node"])).stdout)).toMatchObject({
      port: 9000,
    });
  }
});

it("a misspelled form of --check-config is rejected", async () => {
  const { code, stdout, stderr } = await runMain(["--check-config=jsno", "node"]);
  expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
  expect(stderr).toContain("--check-config takes no value, or json");
});

it.each(["--help", "--version", "--check-config"])("%s exits silently if the reader of stdout has gone", async (flag) => {
  const child = spawn(process.execPath, [MAIN, flag, "--", "some-mcp"], { stdio: ["ignore", "pipe", "pipe"] });
  child.stdout.destroy();
  const [stderr, end] = await Promise.all([text(child.stderr), once(child, "exit")]);
  expect({ stderr, end }).toEqual({ stderr: "", end: [0, null] });
});

it.each(["--help", "--version", "--check-config"])("%s fails with a one-line message if stdout is full", async (flag) => {
  const full = openSync("/dev/full", "w");
  const child = spawn(process.execPath, [MAIN, flag, "--", "some-mcp"], { stdio: ["ignore", full, "pipe"] });
  closeSync(full);
  const { stderr: readable } = child;
  if (readable === null) throw new Error("stderr is a pipe");
  const [stderr, end] = await Promise.all([text(readable), once(child, "exit")]);
  expect(stderr).toMatch(/^claw-mcp-stdio: stdout cannot be written: ENOSPC.*\n$/);
  expect(end).toEqual([1, null]);
});

it.each(["--version", "-v", "version"])("%s shows the version of the package", async (word) => {
  expect(await runMain([word])).toEqual({ code: 0, stdout: `${PACKAGE.version}\n`, stderr: "" });
});

it.each(["22.18.0", "23.11.1", "24.5.0"])("Node %s is rejected", async (nodeVersion) => {
  const { code, stdout, stderr } = await runOnNode(nodeVersion);
  expect({ code, stdout }).toEqual({ code: 1, stdout: "" });
  const remedy = "Install such a Node. A clone has one after npm ci: npx node dist/main.js";
  expect(stderr).toBe(`claw-mcp-stdio needs Node ${PACKAGE.engines.node}; this is ${nodeVersion}. ${remedy}\n`);
});

it.each(["22.19.0", "24.6.0", "26.10.0"])("Node %s is accepted", async (nodeVersion) => {
  expect(await runOnNode(nodeVersion)).toMatchObject({ code: 0, stderr: "" });
});

it.each([
  ["a warning", [], ["--addr"]],
  ["no warning after the word --", ["--"], []],
])("a flag of the sidecar among the server's arguments causes %s", async (_what, separator, expected) => {
  const { stdout } = await runMain(["--addr", "127.0.0.1:0", ...separator, "/no/such/command", "--addr", ":1"]);
  const lines = stdout.split("\n").filter((line) => line.includes('"flag after the command goes to the server"'));
  const named = lines.map((line) => (JSON.parse(line) as { readonly reason: string }).reason.split(":")[0]);
  expect(named).toEqual(expected);
});

it("misspelled variables and flags after the command are reported on stderr by --check-config", async () => {
  const env = { CLAW_MCP_STDIO_PROT: "9", CLAW_MCP_STDIO_PORT: "8" };
  const { code, stdout, stderr } = await runMain(["--check-config", "node", "server.js", "--port=9"], env);
  expect(code).toBe(2);
  expect(stdout).toContain("\n  CLAW_MCP_STDIO_PORT = 8  (CLAW_MCP_STDIO_PORT)\n");
  expect(stderr.split("\n")).toEqual([
    "claw-mcp-stdio: unknown variable: most likely misspelled: CLAW_MCP_STDIO_PROT; did you mean CLAW_MCP_STDIO_PORT?",
    expect.stringMatching(/^claw-mcp-stdio: flag after the command goes to the server: --port: write it before the command;/),
    "",
  ]);
});
