import type { ServerResponse } from "node:http";
import { describe, expect, it } from "vitest";
import { discoverSnapshot, RunningDiscover, runDiscover } from "../support/discover.ts";
import { type Asked, OtherServer } from "../support/other-server.ts";
import { freePort } from "../support/open-sockets.ts";
import { EXAMPLE, Sidecar } from "../support/sidecar.ts";

const INITIALIZE_RESULT = { protocolVersion: "2025-06-18", capabilities: { tools: {} }, serverInfo: { name: "other", version: "1" } };

function json(response: ServerResponse, value: unknown, headers: Readonly<Record<string, string>> = {}): void {
  sendJson(response, JSON.stringify(value), headers);
}

function sendJson(response: ServerResponse, text: string, headers: Readonly<Record<string, string>> = {}): void {
  response.writeHead(200, { "Content-Type": "application/json", ...headers }).end(text);
}

function writeForever(response: ServerResponse, mediaType: string, chunk: Buffer): void {
  response.writeHead(200, { "Content-Type": mediaType });
  const write = (): void => {
    while (!response.destroyed && response.write(chunk));
    if (!response.destroyed) response.once("drain", write);
  };
  write();
}

function answerHandshake({ method, message }: Asked, response: ServerResponse): boolean {
  if (method === "DELETE") response.writeHead(405).end();
  else if (message.method === "initialize") json(response, { jsonrpc: "2.0", id: message.id, result: INITIALIZE_RESULT });
  else if (message.id === undefined) response.writeHead(202).end();
  else return false;
  return true;
}

async function failure(url: string, flags: readonly string[] = []): Promise<string> {
  const { code, stdout, stderr } = await runDiscover([...flags, "--url", url]);
  expect({ code, stdout }).toEqual({ code: 1, stdout: "" });
  return stderr;
}

it("the token is read from the environment, and a failure names its variable", async () => {
  const token = "t0ken-of-the-pod";
  await using sidecar = await Sidecar.start({ command: [process.execPath, EXAMPLE], env: { CLAW_MCP_STDIO_AUTH_TOKEN: token } });
  expect((await discoverSnapshot(["--url", sidecar.url], { CLAW_MCP_STDIO_AUTH_TOKEN: token })).tools).toHaveLength(2);
  const said = new RegExp(`^discover failed: ${sidecar.url}: initialize: HTTP 401 Unauthorized: .*\\(set CLAW_MCP_STDIO_AUTH_TOKEN\\)\\n$`);
  expect(await failure(sidecar.url)).toMatch(said);
  const wrong = await runDiscover(["--url", sidecar.url], { env: { CLAW_MCP_STDIO_AUTH_TOKEN: "wr0ng-token-of-it" } });
  expect(wrong).toMatchObject({ code: 1, stderr: expect.stringContaining("(see CLAW_MCP_STDIO_AUTH_TOKEN)") as string });
  expect(wrong.stderr).not.toContain("wr0ng");
});

describe("a failure of discover --url", () => {
  it.each<[string, (response: ServerResponse, id: number | undefined) => void, string]>([
    ["an HTTP error", (response) => void response.writeHead(503).end("no room\nfor you"), "HTTP 503 Service Unavailable: no room"],
    [
      "a redirect, which is not followed because the token is for one host,",
      (response) => void response.writeHead(307, { Location: "http://127.0.0.1:1/" }).end(),
      "HTTP 307 Temporary Redirect",
    ],
    [
      "a JSON-RPC error with terminal control characters",
      (response, id) => json(response, { jsonrpc: "2.0", id, error: { code: -32602, message: "not\u001B[2J\nyou" } }),
      "the server answered initialize with an error: not you (code -32602)",
    ],
    [
      "an event stream that ends too early",
      (response) => void response.writeHead(200, { "Content-Type": "text/event-stream" }).end("data: {}\n\n"),
      "the event stream ended without a response",
    ],
    [
      "a response that switches to another protocol",
      (response) => void response.socket?.end("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n"),
      "initialize: bad upgrade",
    ],
    [
      "an endless response",
      (response) => writeForever(response, "application/json", Buffer.alloc(1024 * 1024, " ")),
      "the response is longer than 8388608 bytes",
    ],
    [
      "an endless event of empty lines",
      (response) => writeForever(response, "text/event-stream", Buffer.from("data:\n".repeat(10_000))),
      "the response is longer than 8388608 bytes",
    ],
  ])("%s is reported on one line", async (_what, answer, said) => {
    await using server = await OtherServer.start(({ message }, response) => answer(response, message.id));
    const stderr = await failure(server.url);
    expect(stderr.startsWith(`discover failed: `)).toBe(true);
    expect(stderr.trimEnd().split("\n")).toEqual([expect.stringContaining(said)]);
  });

  it("a refused connection is reported", async () => {
    const address = `127.0.0.1:${await freePort()}`;
    expect(await failure(`http://${address}/mcp`)).toBe(
      `discover failed: http://${address}/mcp: initialize: connect ECONNREFUSED ${address}\n`,
    );
  });

  it.each(["initialize", "tools/list"])("a missing response to %s is reported after the timeout", async (method) => {
    await using server = await OtherServer.start((asked, response) => {
      if (asked.message.method !== method) answerHandshake(asked, response);
    });
    expect(await failure(server.url, ["--timeout-ms", "1500"])).toBe(
      `discover failed: no response to ${method} within 1500 ms of the start\n`,
    );
  });

  it("SIGINT ends discover and its session, and nothing else that the server names", async () => {
    const hanging = Promise.withResolvers<void>();
    await using server = await OtherServer.start((asked, response) => {
      const { method, id } = asked.message;
      if (asked.method === "DELETE") response.writeHead(307, { Location: "/index" }).end();
      else if (method === "initialize") json(response, { jsonrpc: "2.0", id, result: INITIALIZE_RESULT }, { "Mcp-Session-Id": "S" });
      else if (!answerHandshake(asked, response)) hanging.resolve();
    });
    await using running = new RunningDiscover(["--url", server.url]);
    await hanging.promise;
    running.process.kill("SIGINT");
    expect(await running.exited).toEqual({ code: 130, signal: null });
    expect(running.stderr).toBe("discover failed: ended by SIGINT\n");
    const deleted = server.asked.filter(({ method }) => method === "DELETE");
    expect(deleted).toMatchObject([{ headers: { "mcp-session-id": "S" } }]);
  });
});
