import { spawn } from "node:child_process";
import { once } from "node:events";
import { connect } from "node:net";
import { expect, it } from "vitest";
import { freePort } from "../support/open-sockets.ts";
import { containerEnvironment } from "../support/pod.ts";
import { FIXTURE, MAIN, runMain, Sidecar } from "../support/sidecar.ts";

function start(env: Readonly<Record<string, string>>, mode = "normal"): Sidecar {
  const options = { env: { PATH: process.env["PATH"], ...env }, stdio: ["ignore", "pipe", "pipe"] as ["ignore", "pipe", "pipe"] };
  return new Sidecar(spawn(process.execPath, [MAIN, "--", process.execPath, FIXTURE, mode], options));
}

it("with the variables of the image, the sidecar listens on all interfaces at PORT", async () => {
  const port = await freePort();
  await using sidecar = start(containerEnvironment({ CLAW_MCP_STDIO_ADDR: "", CLAW_MCP_STDIO_PORT: String(port) }));
  const { address } = await sidecar.waitForLog("listening");
  expect([`[::]:${port}`, `0.0.0.0:${port}`]).toContain(address);
});

it("the healthcheck asks at the host of HOST", async () => {
  const port = await freePort();
  await using sidecar = start({ CLAW_MCP_STDIO_HOST: "127.0.0.2", CLAW_MCP_STDIO_PORT: String(port) });
  await sidecar.waitForLog("mcp server ready");
  expect(await runMain(["healthcheck", "--host", "127.0.0.2", "--port", String(port)])).toMatchObject({ code: 0 });
  expect(await runMain(["healthcheck", "--port", String(port)])).toMatchObject({ code: 1 });
});

it("requests that arrive while the sidecar starts are answered", async () => {
  const port = await freePort();
  await using sidecar = start({ CLAW_MCP_STDIO_PORT: String(port) }, "silent");
  expect(await firstReply(port)).toMatch(/^HTTP\/1\.1 503 [^]*"state":"starting"/);
  await sidecar.waitForLog("listening");
});

async function firstReply(port: number): Promise<string> {
  for (;;) {
    const socket = connect(port, "127.0.0.1");
    try {
      await once(socket, "connect");
    } catch {
      continue;
    }
    socket.write(`GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n`);
    let text = "";
    socket.on("data", (chunk: Buffer) => (text += chunk.toString()));
    await once(socket, "close");
    return text;
  }
}
