import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import { describe, expect, it } from "vitest";
import { disposeAfterAll } from "../support/dispose-after-all.ts";
import { runMain, Sidecar } from "../support/sidecar.ts";

const SPELLINGS = ["healthcheck", "-healthcheck", "--healthcheck"];

describe("healthcheck", async () => {
  const sidecar = disposeAfterAll(await Sidecar.start({ flags: ["--auth-token", "not-needed-here"] }));
  const address = new URL(sidecar.origin).host;

  it.each(SPELLINGS)("as %s exits 0 when the sidecar is ready", async (spelling) => {
    expect(await runMain([spelling, "--addr", address])).toEqual({ code: 0, stdout: "ready\n", stderr: "" });
  });

  it("finds the address in the environment, as the sidecar does", async () => {
    expect(await runMain(["-healthcheck"], { CLAW_MCP_STDIO_ADDR: address })).toMatchObject({ code: 0 });
    const { port } = new URL(sidecar.origin);
    for (const text of [port, `:${port}`])
      expect(await runMain(["-healthcheck"], { CLAW_MCP_STDIO_PORT: text })).toMatchObject({ code: 0 });
    expect(await runMain(["-healthcheck"], { CLAW_MCP_STDIO_ADDR: `:${port}` })).toMatchObject({ code: 0 });
    expect(await runMain(["-healthcheck"], { CLAW_MCP_STDIO_ADDR: `0.0.0.0:${port}` })).toMatchObject({ code: 0 });
  });

  it.each(SPELLINGS)("as %s exits 1 when the server is not ready", async (spelling) => {
    await using starting = await Sidecar.start({ mode: "silent", untilReady: false });
    const reply = await runMain([spelling, "--addr", new URL(starting.origin).host]);
    expect(reply).toEqual({ code: 1, stdout: "not ready (HTTP 503)\n", stderr: "" });
  });

  it("exits 1 when nothing listens", async () => {
    const server = createServer().listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as AddressInfo;
    server.close();
    await once(server, "close");
    const { code, stdout } = await runMain(["-healthcheck", "--addr", `127.0.0.1:${port}`]);
    expect(code).toBe(1);
    expect(stdout).toBe(`not reachable at 127.0.0.1:${port} (connect ECONNREFUSED 127.0.0.1:${port})\n`);
  });

  it("exits 1 when what listens never answers", async () => {
    const server = createServer((socket) => socket.resume()).listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as AddressInfo;
    const { code, stdout } = await runMain(["-healthcheck", "--addr", `127.0.0.1:${port}`]);
    server.close();
    expect(code).toBe(1);
    expect(stdout).toContain(`not reachable at 127.0.0.1:${port} (`);
  });

  it("exits 1 when what listens speaks no HTTP", async () => {
    const server = createServer((socket) => void socket.end("220 mail ready\r\n")).listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as AddressInfo;
    const { code, stdout } = await runMain(["-healthcheck", "--addr", `127.0.0.1:${port}`]);
    server.close();
    expect(code).toBe(1);
    expect(stdout).toContain(`not reachable at 127.0.0.1:${port} (`);
  });

  it("loads nothing but Node's own modules and what reads the configuration: it runs every few seconds", async () => {
    const tellFiles = "load: (url, context, next) => { if (url.startsWith('file:')) console.error(url); return next(url, context); }";
    const hook = `import { registerHooks } from "node:module"; registerHooks({ ${tellFiles} });`;
    const NODE_OPTIONS = `--import=data:text/javascript,${encodeURIComponent(hook)}`;
    const { code, stderr } = await runMain(["-healthcheck", "--addr", address], { NODE_OPTIONS });
    expect(code).toBe(0);
    const parts = stderr
      .trim()
      .split("\n")
      .map((url) => url.split("/dist/").at(-1) ?? url);
    expect(parts).toEqual(expect.arrayContaining(["main.js", "config/load.js", "commands/healthcheck.js"]));
    expect(parts.filter((part) => /node_modules|^(?:http|mux|upstream|policy)\/|logger/.test(part))).toEqual([]);
  });

  it("exits 1, not 2, when the configuration is wrong: a HEALTHCHECK knows 0 and 1 only", async () => {
    const { code, stderr } = await runMain(["-healthcheck"], { CLAW_MCP_STDIO_ADDR: "nonsense" });
    expect(code).toBe(1);
    expect(stderr).toContain('CLAW_MCP_STDIO_ADDR is "nonsense"; expected');
  });
});
