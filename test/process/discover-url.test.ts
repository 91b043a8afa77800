import type { ServerResponse } from "node:http";
import { describe, expect, it } from "vitest";
import { discoverSnapshot, listTools, RunningDiscover, runDiscover, withoutTime } from "../support/discover.ts";
import { type Asked, OtherServer } from "../support/other-server.ts";
import { EXAMPLE, FIXTURE, Sidecar } from "../support/sidecar.ts";
import { readStatus } from "../support/status.ts";
import { TempDir } from "../support/temp-dir.ts";

const SERVER = [process.execPath, FIXTURE];

const INITIALIZE_RESULT = { protocolVersion: "2025-06-18", capabilities: { tools: {} }, serverInfo: { name: "other", version: "1" } };

/** 36 MB of JSON, which need more than a gigabyte as values. */
const MANY_VALUES = `[${"{},".repeat(12_000_000)}{}]`;

function json(response: ServerResponse, value: unknown, headers: Readonly<Record<string, string>> = {}): void {
  sendJson(response, JSON.stringify(value), headers);
}

function sendJson(response: ServerResponse, text: string, headers: Readonly<Record<string, string>> = {}): void {
  response.writeHead(200, { "Content-Type": "application/json", ...headers }).end(text);
}

/** Writes the chunk until the client closes the connection. */
function writeForever(response: ServerResponse, mediaType: string, chunk: Buffer): void {
  response.writeHead(200, { "Content-Type": mediaType });
  const write = (): void => {
    while (!response.destroyed && response.write(chunk));
    if (!response.destroyed) response.once("drain", write);
  };
  write();
}

/** Answers all requests except `tools/list`. @returns false for `tools/list`. */
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

describe("discover --url", () => {
  it("a sidecar gives the same descriptor as its server, and the session is ended", async () => {
    await using directory = await TempDir.create();
    const env = await listTools(
      directory,
      [{ name: "a", annotations: { readOnly: true } }],
      [{ name: "b", description: " B. " }],
      [{ name: "c" }],
    );
    await using sidecar = await Sidecar.start({ env });
    const snapshot = await discoverSnapshot(["--url", sidecar.url, "--", ...SERVER]);
    expect(withoutTime(snapshot)).toEqual(withoutTime(await discoverSnapshot(SERVER, env)));
    expect(snapshot.tools.map(({ name }) => name)).toEqual(["a", "b", "c"]);
    expect((await readStatus(sidecar)).sessions).toBe(0);
  });

  it("the descriptor has the path of the URL, and no command if none is given", async () => {
    await using sidecar = await Sidecar.start({ command: [process.execPath, EXAMPLE], flags: ["--path", "/tools/mcp"] });
    const snapshot = await discoverSnapshot(["--url", `${sidecar.origin}/tools/mcp`]);
    expect(snapshot.mcp.path).toBe("/tools/mcp");
    expect(snapshot["x-claw-discovery"]).toMatchObject({ command: "", args: [], tool_count: 2 });
  });

  it("the token is read from the environment, and a failure names its variable", async () => {
    const token = "t0ken-of-the-pod";
    await using sidecar = await Sidecar.start({ command: [process.execPath, EXAMPLE], env: { CLAW_MCP_STDIO_AUTH_TOKEN: token } });
    expect((await discoverSnapshot(["--url", sidecar.url], { CLAW_MCP_STDIO_AUTH_TOKEN: token })).tools).toHaveLength(2);
    const said = new RegExp(
      `^discover failed: ${sidecar.url}: initialize: HTTP 401 Unauthorized: .*\\(set CLAW_MCP_STDIO_AUTH_TOKEN\\)\\n$`,
    );
    expect(await failure(sidecar.url)).toMatch(said);
    const wrong = await runDiscover(["--url", sidecar.url], { env: { CLAW_MCP_STDIO_AUTH_TOKEN: "wr0ng-token-of-it" } });
    expect(wrong).toMatchObject({ code: 1, stderr: expect.stringContaining("(see CLAW_MCP_STDIO_AUTH_TOKEN)") as string });
    expect(wrong.stderr).not.toContain("wr0ng");
  });

  it("a descriptor is checked against a running sidecar", async () => {
    await using directory = await TempDir.create();
    const env = await listTools(directory, [{ name: "a" }]);
    await using sidecar = await Sidecar.start({ env });
    const path = directory.file("snapshot.json");
    expect((await runDiscover(["--out", path, "--url", sidecar.url])).code).toBe(0);
    expect(await runDiscover(["--check", path, "--url", sidecar.url])).toMatchObject({ code: 0, stdout: "" });
    await listTools(directory, [{ name: "a", description: "Another." }]);
    expect(await runDiscover(["--check", path, "--url", sidecar.url])).toMatchObject({
      code: 3,
      stdout: '~ a: description: "MCP tool a." -> "Another."\n',
    });
  });

  it("responses are read from event streams, after other messages, before the streams end", async () => {
    await using server = await OtherServer.start(({ method, message: { id, method: asked } }, response) => {
      if (method === "DELETE" || id === undefined) {
        response.writeHead(202).end();
        return;
      }
      response.writeHead(200, {
        "Content-Type": "text/event-stream; charset=utf-8",
        ...(asked === "initialize" ? { "Mcp-Session-Id": "S" } : {}),
      });
      const result = asked === "initialize" ? INITIALIZE_RESULT : { tools: [{ name: "é" }] };
      const text = JSON.stringify({ jsonrpc: "2.0", id, result }, undefined, 1);
      response.write(': hello\r\nid: 1\r\ndata:\r\n\r\nevent: message\rdata: {"jsonrpc":"2.0","method":"notifications/message"}\r\r');
      // Cut inside a character, and inside a line end.
      const event = Buffer.from(
        text
          .split("\n")
          .map((line) => `data: ${line}\r\n`)
          .join(""),
      );
      const cut = event.indexOf(0xc3) + 1;
      response.write(event.subarray(0, cut === 0 ? 5 : cut));
      setImmediate(() =>
        response.write(Buffer.concat([event.subarray(cut === 0 ? 5 : cut), Buffer.from("\r")]), () => response.write("\n")),
      );
    });
    const { tools, "x-claw-discovery": discovery } = await discoverSnapshot(["--url", server.url]);
    expect(tools.map(({ name }) => name)).toEqual(["é"]);
    expect(discovery["mcp_protocol_version"]).toBe("2025-06-18");
    expect(
      server.asked.map(({ method, message, headers }) => [
        method,
        message.method,
        headers["mcp-session-id"],
        headers["mcp-protocol-version"],
      ]),
    ).toEqual([
      ["POST", "initialize", undefined, undefined],
      ["POST", "notifications/initialized", "S", "2025-06-18"],
      ["POST", "tools/list", "S", "2025-06-18"],
      ["DELETE", undefined, "S", "2025-06-18"],
    ]);
  });

  it("a server without sessions that sends batches is supported", async () => {
    await using server = await OtherServer.start((asked, response) => {
      if (!answerHandshake(asked, response)) {
        json(response, [
          { jsonrpc: "2.0", method: "notifications/x" },
          { jsonrpc: "2.0", id: asked.message.id, result: { tools: [{ name: "a" }] } },
        ]);
      }
    });
    expect((await discoverSnapshot(["--url", server.url])).tools).toHaveLength(1);
    expect(server.asked.map(({ method }) => method)).toEqual(["POST", "POST", "POST"]);
  });

  it("a response to initialize with millions of values is read without building them", async () => {
    await using server = await OtherServer.start((asked, response) => {
      const { method, id } = asked.message;
      if (method === "tools/list") json(response, { jsonrpc: "2.0", id, result: { tools: [{ name: "a" }] } });
      else if (method !== "initialize") answerHandshake(asked, response);
      else
        sendJson(response, `{"jsonrpc":"2.0","id":${id},"result":{"x":${MANY_VALUES},"protocolVersion":"1","capabilities":{"tools":{}}}}`);
    });
    expect((await discoverSnapshot(["--url", server.url])).tools).toHaveLength(1);
  });

  describe("a failure of discover --url", () => {
    it.each<[string, (response: ServerResponse, id: number | undefined) => void, string]>([
      ["an HTTP error", (response) => void response.writeHead(503).end("no room\nfor you"), "HTTP 503 Service Unavailable: no room"],
      [
        "a web page, which is not shown,",
        (response) => void response.writeHead(404, { "Content-Type": "text/html" }).end("<html>"),
        "HTTP 404 Not Found",
      ],
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
        "another media type",
        (response) => void response.writeHead(200, { "Content-Type": "text/plain" }).end("hello"),
        "the response is text/plain, not application/json",
      ],
      [
        "a body that is not JSON",
        (response) => void response.writeHead(200, { "Content-Type": "application/json" }).end("{"),
        "the response is not a JSON-RPC response to the request",
      ],
      [
        "the response to another request",
        (response) => json(response, { jsonrpc: "2.0", id: 77, result: INITIALIZE_RESULT }),
        "the response is not a JSON-RPC response to the request",
      ],
      [
        "an event stream that ends too early",
        (response) => void response.writeHead(200, { "Content-Type": "text/event-stream" }).end("data: {}\n\n"),
        "the event stream ended without a response",
      ],
      [
        "a response that switches to another protocol",
        (response) => void response.socket?.end("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n"),
        "the connection was closed without a response",
      ],
      ["a connection that breaks", (response) => void response.destroy(), "socket hang up"],
      [
        "a response without a revision",
        (response, id) => json(response, { jsonrpc: "2.0", id, result: {} }),
        "the response has no protocolVersion",
      ],
      [
        "an endless response",
        (response) => writeForever(response, "application/json", Buffer.alloc(1024 * 1024, " ")),
        "the response is longer than 67108864 bytes",
      ],
      [
        "an endless event of empty lines",
        (response) => writeForever(response, "text/event-stream", Buffer.from("data:\n".repeat(10_000))),
        "the event stream has more than 1000000 lines",
      ],
    ])("%s is reported on one line", async (_what, answer, said) => {
      await using server = await OtherServer.start(({ message }, response) => answer(response, message.id));
      const stderr = await failure(server.url);
      expect(stderr.startsWith(`discover failed: `)).toBe(true);
      expect(stderr.trimEnd().split("\n")).toEqual([expect.stringContaining(said)]);
    });

    it("a refused connection is reported", async () => {
      const server = await OtherServer.start(() => undefined);
      const { url } = server;
      await server[Symbol.asyncDispose]();
      expect(await failure(url)).toBe(`discover failed: ${url}: initialize: connect ECONNREFUSED ${new URL(url).host}\n`);
    });

    it.each(["initialize", "tools/list"])("a missing response to %s is reported after the timeout", async (method) => {
      await using server = await OtherServer.start((asked, response) => {
        if (asked.message.method !== method) answerHandshake(asked, response);
      });
      expect(await failure(server.url, ["--timeout-ms", "1500"])).toBe(
        `discover failed: no response to ${method} within 1500 ms of the start\n`,
      );
    });

    it("a page of millions of small values is reported within the time limit", async () => {
      await using server = await OtherServer.start((asked, response) => {
        if (answerHandshake(asked, response)) return;
        const inputSchema = `{"type":"object","x":${MANY_VALUES}}`;
        sendJson(response, `{"jsonrpc":"2.0","id":${asked.message.id},"result":{"tools":[{"name":"t","inputSchema":${inputSchema}}]}}`);
      });
      expect(await failure(server.url, ["--timeout-ms", "20000"])).toBe(
        "discover failed: tools/list: too many values: they could take more than 268435456 bytes of memory\n",
      );
    });

    it("an endless list is reported", async () => {
      await using server = await OtherServer.start((asked, response) => {
        if (answerHandshake(asked, response)) return;
        json(response, { jsonrpc: "2.0", id: asked.message.id, result: { tools: [], nextCursor: "again" } });
      });
      expect(await failure(server.url)).toContain("repeats an earlier cursor");
    });

    it("SIGINT ends discover and its session", async () => {
      const hanging = Promise.withResolvers<void>();
      await using server = await OtherServer.start((asked, response) => {
        const { method, id } = asked.message;
        if (method === "initialize") json(response, { jsonrpc: "2.0", id, result: INITIALIZE_RESULT }, { "Mcp-Session-Id": "S" });
        else if (!answerHandshake(asked, response)) hanging.resolve();
      });
      await using running = new RunningDiscover(["--url", server.url]);
      await hanging.promise;
      running.process.kill("SIGINT");
      expect(await running.exited).toEqual({ code: 130, signal: null });
      expect(running.stderr).toBe("discover failed: ended by SIGINT\n");
      expect(server.asked.at(-1)).toMatchObject({ method: "DELETE", headers: { "mcp-session-id": "S" } });
    });
  });
});
