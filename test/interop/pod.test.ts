import { spawn } from "node:child_process";
import { once } from "node:events";
import { text } from "node:stream/consumers";
import { describe, expect, it } from "vitest";
import { ConsumerClient } from "../support/consumer-client.ts";
import { crash } from "../support/crash.ts";
import { DiscoveryClient } from "../support/discovery-client.ts";
import { Gate } from "../support/gate.ts";
import { send } from "../support/http-client.ts";
import { McpClient } from "../support/mcp-client.ts";
import { containerEnvironment, freePort, Pod } from "../support/pod.ts";
import { EXAMPLE, FIXTURE, MAIN } from "../support/sidecar.ts";

interface Run {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs the program to its end with only the container's environment. */
async function runInContainer(env: Readonly<Record<string, string>>, ...args: readonly string[]): Promise<Run> {
  const child = spawn(process.execPath, [MAIN, ...args], { env, stdio: ["ignore", "pipe", "pipe"] });
  const [stdout, stderr, [code]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, "close") as Promise<[number | null]>,
  ]);
  return { code, stdout, stderr };
}

async function jsonFromTool(pod: Pod, tool: string): Promise<unknown> {
  const client = await new McpClient(pod.url).open();
  return JSON.parse(await client.toolText(tool));
}

describe("a pod", () => {
  it("the server gets its arguments without a shell's changes", async () => {
    const args = ["--greeting", "hello $HOME 'and' \"all\"", "", "*", "a;b|c`d`", "ünï\n"];
    await using pod = await Pod.start({ args: [FIXTURE, "normal", ...args] });
    expect(await jsonFromTool(pod, "where")).toMatchObject({ argv: args });
  });

  it("the server gets the container's environment without the sidecar's own variables", async () => {
    const env = { PERPLEXITY_API_KEY: "key-1", CLAW_POD: "trading", CLAW_MCP_STDIO_AUTH_TOKEN: "", CLAW_MCP_STDIO_FUTURE: "x" };
    await using pod = await Pod.start({ env });
    const { CLAW_MCP_STDIO_HOST: _, ...others } = containerEnvironment({ PERPLEXITY_API_KEY: "key-1", CLAW_POD: "trading" });
    expect(await jsonFromTool(pod, "env")).toEqual(others);
  });

  it("the sidecar works for discovery and for the consumer with one token", async () => {
    const args = [EXAMPLE];
    await using pod = await Pod.start({ args, env: { CLAW_MCP_STDIO_AUTH_TOKEN: "0123456789abcdef" }, untilReady: false });
    const { origin, url } = pod;
    const token = "0123456789abcdef";
    const command = process.execPath;
    const discovery = new DiscoveryClient({ origin, token, service: "echo", command, args, wrapperImage: "claw-mcp-stdio:test" });
    const { tools } = await discovery.discover();
    expect(tools.map(({ name }) => name)).toEqual(["echo", "add"]);

    using consumer = new ConsumerClient(url, { token });
    expect(await consumer.call("add", { a: 20, b: 22 })).toEqual({ ok: true, text: "42" });
    using stranger = new ConsumerClient(url);
    expect(await stranger.call("add", { a: 20, b: 22 })).toMatchObject({ ok: false, code: "http_401" });
    expect(await pod.sidecar.stop()).toBe(0);
  });

  it("the sidecar serves the configured path and no other", async () => {
    await using pod = await Pod.start({ env: { CLAW_MCP_STDIO_PATH: "/v1/tools" } });
    using consumer = new ConsumerClient(`${pod.origin}/v1/tools`);
    expect(await consumer.call("echo", { text: "here" })).toEqual({ ok: true, text: "here" });
    using lost = new ConsumerClient(pod.url);
    expect(await lost.call("echo", { text: "there" })).toMatchObject({ ok: false, code: "http_404" });
  });

  it("the sidecar listens at ADDR if it is set, and not at PORT", async () => {
    const unused = await freePort();
    await using pod = await Pod.start({
      env: { CLAW_MCP_STDIO_ADDR: "127.0.0.1:0", CLAW_MCP_STDIO_PORT: String(unused) },
    });
    const { address } = await pod.sidecar.waitForLog("listening");
    expect(address).toMatch(/^127\.0\.0\.1:\d+$/);
    const { status } = await send(`http://${String(address)}/healthz`, { method: "GET" });
    expect(status).toBe(200);
    await expect(send(`http://127.0.0.1:${unused}/healthz`, { method: "GET" })).rejects.toThrow("ECONNREFUSED");
  });

  it("a port may have a colon before it", async () => {
    const port = await freePort();
    await using pod = await Pod.start({ env: { CLAW_MCP_STDIO_PORT: `:${port}` } });
    const { address } = await pod.sidecar.waitForLog("listening");
    expect(address).toMatch(new RegExp(`:${port}$`));
    const { status } = await send(`http://127.0.0.1:${port}/healthz`, { method: "GET" });
    expect(status).toBe(200);
  });

  it("the pod is healthy only while the server is ready", async () => {
    await using gate = await Gate.create();
    await using pod = await Pod.start({ args: [FIXTURE, "gated"], env: gate.env, untilReady: false });
    expect(await runInContainer(pod.env, "-healthcheck")).toMatchObject({ code: 1, stdout: "not ready (HTTP 503)\n" });
    await gate.open();
    await pod.sidecar.waitForLog("mcp server ready");
    expect(await runInContainer(pod.env, "-healthcheck")).toEqual({ code: 0, stdout: "ready\n", stderr: "" });
    expect(await pod.sidecar.stop()).toBe(0);
    expect(await runInContainer(pod.env, "-healthcheck")).toMatchObject({
      code: 1,
      stdout: expect.stringContaining("ECONNREFUSED") as string,
    });
  });

  it("the configured request time and body size apply", async () => {
    const env = { CLAW_MCP_STDIO_REQUEST_TIMEOUT_MS: "500", CLAW_MCP_STDIO_MAX_BODY_BYTES: "1000" };
    await using pod = await Pod.start({ env });
    using consumer = new ConsumerClient(pod.url);
    expect(await consumer.call("hang")).toMatchObject({ code: "mcp_error", details: { code: "REQUEST_TIMEOUT", timeoutMs: 500 } });
    expect(await consumer.call("echo", { text: "x".repeat(1000) })).toMatchObject({
      code: "http_413",
      details: { error: { data: { code: "BODY_TOO_LARGE", limitBytes: 1000 } } },
    });
  });

  it("the configured pause precedes a restart", async () => {
    await using pod = await Pod.start({ env: { CLAW_MCP_STDIO_RESTART_BACKOFF_MS: "7", CLAW_MCP_STDIO_RESTART_MAX_MS: "7" } });
    await crash(pod.sidecar);
    expect(await pod.sidecar.waitForLog("mcp server will be restarted")).toMatchObject({ pauseMs: 7 });
    await pod.sidecar.waitForLog("mcp server ready", (line) => line["generation"] === 2);
  });

  it("the server gets the configured time to become ready", async () => {
    await using pod = await Pod.start({
      args: [FIXTURE, "silent"],
      env: { CLAW_MCP_STDIO_READY_TIMEOUT_MS: "50" },
      untilReady: false,
    });
    const { reason } = await pod.sidecar.waitForLog("mcp server exited");
    expect(reason).toBe("no response to initialize within 50 ms");
  });

  it("the sidecar does not start with an invalid configuration, and lists all problems", async () => {
    const wrong = {
      CLAW_MCP_STDIO_ARGS: "--port 1",
      CLAW_MCP_STDIO_PORT: "http",
      CLAW_MCP_STDIO_PATH: "mcp",
      CLAW_MCP_STDIO_REQUEST_TIMEOUT_MS: "0",
      CLAW_MCP_STDIO_RESTART_BACKOFF_MS: "1.5",
      CLAW_MCP_STDIO_RESTART_MAX_MS: "15s",
      CLAW_MCP_STDIO_MAX_BODY_BYTES: "-1",
    };
    const { code, stderr } = await runInContainer(containerEnvironment(wrong));
    expect(code).toBe(2);
    for (const problem of [...Object.keys(wrong).map((name) => `${name} is `), "no command is given"]) {
      expect(stderr.split("\n").filter((line) => line.startsWith(`  - ${problem}`))).toHaveLength(1);
    }
  });

  it("the sidecar exits with 127 if the command does not exist, so the container fails", async () => {
    const env = containerEnvironment({ CLAW_MCP_STDIO_COMMAND: "no-such-mcp-server", CLAW_MCP_STDIO_PORT: String(await freePort()) });
    const { code, stdout } = await runInContainer(env);
    expect(code).toBe(127);
    expect(stdout).toContain("no-such-mcp-server");
  });

  it("the sidecar exits with 1 if its port is taken, and starts no server", async () => {
    await using pod = await Pod.start();
    const { code, stdout } = await runInContainer(pod.env);
    expect(code).toBe(1);
    const lines = stdout
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as { readonly msg: string; readonly reason?: string });
    expect(lines.map(({ msg }) => msg)).toEqual(["the port is taken"]);
    const { reason } = lines.find(({ msg }) => msg === "the port is taken") ?? {};
    const port = pod.env["CLAW_MCP_STDIO_PORT"];
    expect(reason).toMatch(new RegExp(`address already in use .*:${port}; .* on port ${port}, or choose another with --port or --addr$`));
  });
});
