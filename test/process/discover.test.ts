import { spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync, statSync } from "node:fs";
import { utimes, writeFile } from "node:fs/promises";
import type { ServerResponse } from "node:http";
import { describe, expect, it } from "vitest";
import { discoverSnapshot, listingServer, listTools, readSnapshot, runDiscover, withoutTime } from "../support/discover.ts";
import { Gate } from "../support/fixture-server.ts";
import { META, MODERN_VERSION } from "../support/modern-client.ts";
import { OtherServer } from "../support/other-server.ts";
import { EXAMPLE, FIXTURE, MAIN } from "../support/sidecar.ts";
import { TempDir } from "../support/temp-dir.ts";

const ECHO = [process.execPath, EXAMPLE];
const SERVER = [process.execPath, FIXTURE];

it("stdout contains the descriptor of the server and nothing else", async () => {
  const { code, stdout, stderr } = await runDiscover(["--description", "Sums.", "--image", "claw:v1", "--", ...ECHO]);
  expect({ code, stderr }).toEqual({ code: 0, stderr: "2 tools\n" });
  expect(stdout.endsWith("}\n")).toBe(true);
  expect(JSON.parse(stdout)).toEqual({
    version: 2,
    description: "Sums.",
    mcp: { transport: "streamable_http", path: "/mcp" },
    tools: [
      expect.objectContaining({ name: "echo", description: "Returns the text it is given.", annotations: { readOnlyHint: true } }),
      expect.objectContaining({ name: "add", description: "Adds two numbers." }),
    ],
    "x-claw-discovery": {
      command: process.execPath,
      args: [EXAMPLE],
      wrapper_image: "claw:v1",
      discovered_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/) as string,
      mcp_protocol_version: "2025-11-25",
      tool_count: 2,
    },
  });
});

it("command, arguments and path are read from the environment, as in a container", async () => {
  const snapshot = await discoverSnapshot([], {
    CLAW_MCP_STDIO_COMMAND: process.execPath,
    CLAW_MCP_STDIO_ARGS: JSON.stringify([EXAMPLE]),
    CLAW_MCP_STDIO_PATH: "/tools/mcp",
  });
  expect(snapshot).toMatchObject({ mcp: { path: "/tools/mcp" }, "x-claw-discovery": { command: process.execPath, args: [EXAMPLE] } });
});

it("all pages are read in the server's order", async () => {
  await using directory = await TempDir.create();
  const env = await listTools(directory, [{ name: "b" }, { name: "a" }], [], [{ name: "c" }]);
  const { tools, "x-claw-discovery": discovery } = await discoverSnapshot(SERVER, env);
  expect(tools.map(({ name }) => name)).toEqual(["b", "a", "c"]);
  expect(discovery["tool_count"]).toBe(3);
  expect(tools[0]).toEqual({ name: "b", description: "MCP tool b.", inputSchema: { type: "object", properties: {} } });
});

it("the server's pings are answered, its other requests rejected, and its notifications ignored", async () => {
  const { tools } = await discoverSnapshot(listingServer("asks"));
  expect(JSON.parse(tools[0]?.description ?? "")).toEqual([
    { jsonrpc: "2.0", id: "ping 1", result: {} },
    { jsonrpc: "2.0", id: 1, error: expect.objectContaining({ code: -32601 }) as object },
  ]);
});

it("the server gets the environment without the sidecar's own variables", async () => {
  const show = `process.stdin.once("data",()=>{process.stderr.write(Object.keys(process.env).filter((name)=>/CLAW|SOME/.test(name)).join(" "));process.exit(1)})`;
  const env = { CLAW_MCP_STDIO_AUTH_TOKEN: "s3cret-token", SOME_API_KEY: "for-the-server" };
  const { stderr } = await runDiscover([process.execPath, "-e", show], { env });
  expect(stderr.split("\n").at(-2)).toBe("  SOME_API_KEY");
});

it("a server without the tools capability gives an empty list and a note", async () => {
  const { code, stdout, stderr } = await runDiscover(listingServer("no-tools"));
  expect({ code, tools: (JSON.parse(stdout) as { tools: unknown }).tools }).toEqual({ code: 0, tools: [] });
  expect(stderr).toBe("note: the server does not declare the capability `tools`: its tools were not listed\n0 tools\n");
});

describe("the descriptor file", () => {
  it("the file is written to the folder that pods search, named after the service", async () => {
    await using directory = await TempDir.create();
    const { code, stdout, stderr } = await runDiscover(["--service", String.raw`a/b\c:d`, "--", ...ECHO], { cwd: directory.path });
    expect({ code, stdout, stderr }).toEqual({
      code: 0,
      stdout: "",
      stderr: "2 tools, written to .claw-discovered/a-b-c-d.claw-describe.json\n",
    });
    expect(readdirSync(directory.file(".claw-discovered"))).toEqual(["a-b-c-d.claw-describe.json"]);
    const snapshot = readSnapshot(directory.file(".claw-discovered/a-b-c-d.claw-describe.json"));
    expect(snapshot.description).toBe(String.raw`a/b\c:d MCP stdio tools.`);
    expect(snapshot.tools).toHaveLength(2);
  });

  it("the file is replaced only if more than the time has changed", async () => {
    await using directory = await TempDir.create();
    const out = directory.file("svc.json");
    await runDiscover(["--out", out, "--", ...ECHO]);
    const old = readFileSync(out, "utf8").replace(/"discovered_at": ".*"/, '"discovered_at": "2026-01-01T00:00:00Z"');
    await writeFile(out, old);
    await utimes(out, 1, 1);

    const again = await runDiscover(["--out", out, "--", ...ECHO]);
    expect(again).toEqual({ code: 0, stdout: "", stderr: `2 tools, unchanged since 2026-01-01T00:00:00Z: ${out} is not rewritten\n` });
    expect(readFileSync(out, "utf8")).toBe(old);
    expect(statSync(out).mtimeMs).toBe(1000);

    const changed = await runDiscover(["--out", out, "--image", "claw:v2", "--", ...ECHO]);
    expect(changed).toEqual({ code: 0, stdout: "", stderr: `2 tools, written to ${out}\n` });
    const before = JSON.parse(old) as Parameters<typeof withoutTime>[0];
    expect(withoutTime(readSnapshot(out))).toEqual({
      ...withoutTime(before),
      "x-claw-discovery": { ...before["x-claw-discovery"], discovered_at: undefined, wrapper_image: "claw:v2" },
    });
    expect(readdirSync(directory.path)).toEqual(["svc.json"]);
  });
});

describe("the progress line", () => {
  it("a terminal shows the server's last output on one line until the end", async () => {
    await using gate = await Gate.create();
    const words = [MAIN, "discover", "--", "sh", "-c", `echo 'npm downloads' >&2; exec '${process.execPath}' '${FIXTURE}' gated`];
    const line = [process.execPath, ...words].map((word) => `'${word.replaceAll("'", String.raw`'\''`)}'`).join(" ");
    const terminal = spawn("script", ["-qec", `exec ${line} > /dev/null`, "/dev/null"], {
      env: { ...process.env, ...gate.env },
      stdio: ["ignore", "pipe", "inherit"],
    });
    let shown = "";
    for await (const chunk of terminal.stdout) {
      shown += String(chunk);
      if (/sh: waiting for its tools, \d+ s: npm downloads/.test(shown)) await gate.open();
    }
    if (terminal.exitCode === null) await once(terminal, "exit");
    expect(terminal.exitCode).toBe(0);
    expect(shown.split("\r\u001B[2K").at(-1)).toMatch(/^\d+ tools\r\n$/);
  });

  it("stderr that is not a terminal gets no progress line", async () => {
    // Longer than the delay before the line appears.
    const script = `sleep 1; exec '${process.execPath}' '${FIXTURE}'`;
    const { code, stderr } = await runDiscover(["sh", "-c", script]);
    expect({ code, stderr }).toEqual({ code: 0, stderr: expect.stringMatching(/^\d+ tools\n$/) as string });
  });
});

function rejectAll(response: ServerResponse, id: number | undefined, error: object): void {
  response.writeHead(400, { "Content-Type": "application/json" }).end(JSON.stringify({ jsonrpc: "2.0", id, error }));
}

describe("discover", () => {
  it.each([
    ["modern-only", MODERN_VERSION],
    // As clients of sessions see them.
    ["dual", "2025-11-25"],
    ["pinned-by-discover", "2025-11-25"],
    ["exits-on-discover", "2025-11-25"],
  ])("a server in mode %s is listed with the revision %s", async (mode, version) => {
    await using directory = await TempDir.create();
    const env = await listTools(directory, [{ name: "a", annotations: { readOnly: true } }], [{ name: "b" }]);
    const snapshot = await discoverSnapshot([...SERVER, mode], env);
    expect(snapshot.tools.map(({ name }) => name)).toEqual(["a", "b"]);
    expect(snapshot["x-claw-discovery"]).toMatchObject({ mcp_protocol_version: version, tool_count: 2 });
  });
});

describe("discover --url", () => {
  it("a server that rejects initialize with its revisions gets requests without a session", async () => {
    await using server = await OtherServer.start(({ message: { id, method } }, response) => {
      if (method === "initialize") return rejectAll(response, id, { code: -32022, message: "no", data: { supported: [MODERN_VERSION] } });
      const result =
        method === "server/discover" ? { supportedVersions: [MODERN_VERSION], capabilities: { tools: {} } } : { tools: [{ name: "a" }] };
      response.writeHead(200, { "Content-Type": "text/event-stream" });
      response.end(`data: ${JSON.stringify({ jsonrpc: "2.0", id, result: { resultType: "complete", ...result } })}\n\n`);
    });
    expect((await discoverSnapshot(["--url", server.url])).tools.map(({ name }) => name)).toEqual(["a"]);
    const [, ...requests] = server.asked;
    expect(requests.map(({ headers }) => [headers["mcp-method"], headers["mcp-protocol-version"]])).toEqual([
      ["server/discover", MODERN_VERSION],
      ["tools/list", MODERN_VERSION],
    ]);
    for (const { message } of requests) {
      expect(message.params?.["_meta"]).toMatchObject({ [META.protocolVersion]: MODERN_VERSION, [META.clientCapabilities]: {} });
    }
  });

  it("another error of initialize is reported without further requests", async () => {
    await using server = await OtherServer.start(({ message: { id } }, response) =>
      rejectAll(response, id, { code: -32602, message: "no" }),
    );
    expect((await runDiscover(["--url", server.url])).stderr).toContain(": initialize: HTTP 400 Bad Request: no\n");
    expect(server.asked).toHaveLength(1);
  });
});
