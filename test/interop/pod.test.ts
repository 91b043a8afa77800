import { spawn } from "node:child_process";
import { once } from "node:events";
import { text } from "node:stream/consumers";
import { describe, expect, it } from "vitest";
import { ConsumerClient } from "../support/consumer-client.ts";
import { DiscoveryClient } from "../support/discovery-client.ts";
import { Gate } from "../support/gate.ts";
import { McpClient } from "../support/mcp-client.ts";
import { containerEnvironment, Pod } from "../support/pod.ts";
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
  it("the server gets its arguments and the container's environment, without the sidecar's own variables", async () => {
    const args = ["--greeting", "hello $HOME 'and' \"all\"", "", "*", "a;b|c`d`", "ünï\n"];
    const env = { PERPLEXITY_API_KEY: "key-1", CLAW_POD: "trading", CLAW_MCP_STDIO_AUTH_TOKEN: "", CLAW_MCP_STDIO_FUTURE: "x" };
    await using pod = await Pod.start({ args: [FIXTURE, "normal", ...args], env });
    expect(await jsonFromTool(pod, "where")).toMatchObject({ argv: args });
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
});
