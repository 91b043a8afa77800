import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import { expect, it } from "vitest";
import { sourcesOf } from "../support/bundle.ts";
import { disposeAfterAll } from "../support/dispose-after-all.ts";
import { freePort } from "../support/open-sockets.ts";
import { runMain, Sidecar } from "../support/sidecar.ts";

const SPELLINGS = ["healthcheck", "-healthcheck", "--healthcheck"];

const sidecar = disposeAfterAll(await Sidecar.start({ flags: ["--auth-token", "not-needed-here"] }));
const address = new URL(sidecar.origin).host;

it.each(SPELLINGS)("%s exits 0 if the sidecar is ready", async (spelling) => {
  expect(await runMain([spelling, "--addr", address])).toEqual({ code: 0, stdout: "ready\n", stderr: "" });
});

it("the address is read from the environment, as for the sidecar", async () => {
  expect(await runMain(["-healthcheck"], { CLAW_MCP_STDIO_ADDR: address })).toMatchObject({ code: 0 });
  const { port } = new URL(sidecar.origin);
  for (const text of [port, `:${port}`]) expect(await runMain(["-healthcheck"], { CLAW_MCP_STDIO_PORT: text })).toMatchObject({ code: 0 });
  expect(await runMain(["-healthcheck"], { CLAW_MCP_STDIO_ADDR: `:${port}` })).toMatchObject({ code: 0 });
  expect(await runMain(["-healthcheck"], { CLAW_MCP_STDIO_ADDR: `0.0.0.0:${port}` })).toMatchObject({ code: 0 });
});

it("the healthcheck exits 1 if the server is not ready", async () => {
  await using starting = await Sidecar.start({ mode: "silent", untilReady: false });
  const reply = await runMain(["healthcheck", "--addr", new URL(starting.origin).host]);
  expect(reply).toEqual({ code: 1, stdout: "not ready (HTTP 503)\n", stderr: "" });
});

it("the healthcheck exits 1 if nothing listens", async () => {
  const port = await freePort();
  const { code, stdout } = await runMain(["-healthcheck", "--addr", `127.0.0.1:${port}`]);
  expect(code).toBe(1);
  expect(stdout).toBe(`not reachable at 127.0.0.1:${port} (connect ECONNREFUSED 127.0.0.1:${port})\n`);
});

it("the healthcheck exits 1 if the listener never answers", async () => {
  const server = createServer((socket) => socket.resume()).listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const { code, stdout } = await runMain(["-healthcheck", "--addr", `127.0.0.1:${port}`]);
  server.close();
  expect(code).toBe(1);
  expect(stdout).toContain(`not reachable at 127.0.0.1:${port} (`);
});

// The command runs every few seconds, so it has to start fast.
it("the healthcheck loads only Node's modules and the configuration code", async () => {
  const tellFiles = "load: (url, context, next) => { if (url.startsWith('file:')) console.error(url); return next(url, context); }";
  const hook = `import { registerHooks } from "node:module"; registerHooks({ ${tellFiles} });`;
  const NODE_OPTIONS = `--import=data:text/javascript,${encodeURIComponent(hook)}`;
  const { code, stderr } = await runMain(["-healthcheck", "--addr", address], { NODE_OPTIONS });
  expect(code).toBe(0);
  const parts = stderr
    .trim()
    .split("\n")
    .map((url) => url.split("/dist/").at(-1) ?? url);
  expect(parts).toEqual(expect.arrayContaining(["main.js", expect.stringMatching(/^healthcheck-/)]));
  const sources = parts.flatMap((part) => sourcesOf(part));
  expect(sources).toEqual(expect.arrayContaining(["src/config/load.ts", "src/cli/healthcheck.ts"]));
  const options = new Set(["src/http/guards.ts", "src/server/call.ts", "src/policy/tools.ts"]);
  const others = sources.filter((source) => /node_modules|^src\/(?:http|lane|sessions|upstream|policy)\/|logger/.test(source));
  expect(others.filter((source) => !options.has(source))).toEqual([]);
});

// Docker reserves exit codes of a HEALTHCHECK other than 0 and 1.
it("the healthcheck exits 1, not 2, if the configuration is invalid", async () => {
  const { code, stderr } = await runMain(["-healthcheck"], { CLAW_MCP_STDIO_ADDR: "nonsense" });
  expect(code).toBe(1);
  expect(stderr).toContain('CLAW_MCP_STDIO_ADDR is "nonsense"; expected');
});
