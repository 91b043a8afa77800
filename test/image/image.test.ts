import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import { expect, it } from "vitest";
import { CacheVolume, Container, docker, EXAMPLE_IN_CONTAINER, IMAGE, LEAST_PRIVILEGE } from "../support/container.ts";
import { DiscoveryClient } from "../support/discovery-client.ts";
import { McpClient } from "../support/mcp-client.ts";
import { SdkClient } from "../support/sdk-client.ts";
import { TerminalRun } from "../support/terminal.ts";

const manifest = readJson("package.json") as { readonly version: string; readonly description: string; readonly license: string };

const NPX_EVERYTHING = ["npx", "-y", "@modelcontextprotocol/server-everything"] as const;
/** Checks every second, and reports the first failure after the first success, instead of three in a row. */
const QUICK_HEALTHCHECK = ["--health-interval", "1s", "--health-retries", "1"];
/** The bundled example, as a package in a repository. */
const NPX_FROM_REPOSITORY = `set -e
git init --quiet /tmp/repository && cd /tmp/repository
cp /examples/echo-server/server.js . && chmod 755 server.js
echo '{"name":"echo-server","version":"1.0.0","type":"module","bin":"server.js"}' > package.json
git add . && git -c user.name=nobody -c user.email=nobody@localhost commit --quiet --message=first
cd /tmp && exec npx -y git+file:///tmp/repository`;
const REAP_TIMEOUT_MS = 5000;
/** The page in the browser, and the licences of its packages. */
const MAX_PAGE_BYTES = 300_000;
const MAX_APPLICATION_BYTES = 5_500_000 + MAX_PAGE_BYTES;

function readJson(path: string): unknown {
  return JSON.parse(readFileSync(new URL(`../../${path}`, import.meta.url), "utf8"));
}

/** Sends SIGTERM and expects exit code 0. @returns the milliseconds from its arrival to the exit, without those of the commands of docker. */
async function msToEndAtSigterm(container: Container): Promise<number> {
  const ended = container.exitCode();
  await container.signal("SIGTERM");
  expect(await ended).toBe(0);
  const { time } = await container.waitForLog("stopping");
  const finishedAt = await docker("inspect", "--format", "{{.State.FinishedAt}}", container.id);
  const durationMs = Date.parse(finishedAt) - Date.parse(String(time));
  console.log(`from SIGTERM to the end of the container: ${durationMs.toFixed(0)} ms`);
  return durationMs;
}

it("the image declares its labels, user and health check", async () => {
  const [{ Config, Size }] = JSON.parse(await docker("image", "inspect", IMAGE)) as [
    { readonly Config: Readonly<Record<string, unknown>>; readonly Size: number },
  ];
  console.log(`size of the image: ${(Size / 1e6).toFixed(0)} MB`);
  expect(Config).toMatchObject({
    User: "1000:1000",
    Entrypoint: ["tini", "--", "claw-mcp-stdio"],
    Healthcheck: { Test: ["CMD", "claw-mcp-stdio", "-healthcheck"] },
    Labels: {
      "org.opencontainers.image.title": "claw-mcp-stdio",
      "org.opencontainers.image.description": manifest.description,
      "org.opencontainers.image.licenses": manifest.license,
      "org.opencontainers.image.version": manifest.version,
    },
  });
});

it("the image is small, and runs as uid 1000 under tini, without capabilities, on a read-only file system", async () => {
  await using container = await Container.startReady({ args: EXAMPLE_IN_CONTAINER });
  expect((await container.exec("ls", "/opt/claw-mcp-stdio")).split("\n")).toEqual(["LICENSE", "dist", "package.json"]);
  const manifests = await container.exec("sh", "-c", "cat /opt/claw-mcp-stdio/dist/third-party/*/package.json");
  expect(manifests).toContain('"name": "pino"');
  const [bytes = ""] = (await container.exec("du", "--bytes", "--summarize", "/opt/claw-mcp-stdio")).split("\t");
  console.log(`of that, the sidecar: ${(Number(bytes) / 1e6).toFixed(1)} MB`);
  expect(Number(bytes)).toBeLessThan(MAX_APPLICATION_BYTES);

  expect(await container.exec("cat", "/proc/1/comm")).toBe("tini");
  for (const pid of [1, await container.serverPid()]) {
    const status = await container.exec("cat", `/proc/${pid}/status`);
    expect(status).toMatch(/^Uid:\t1000\t1000\t1000\t1000$/m);
    expect(status.match(/^Cap\w+:\t\w+$/gm)).toEqual(["Inh", "Prm", "Eff", "Bnd", "Amb"].map((set) => `Cap${set}:\t${"0".repeat(16)}`));
    expect(status).toMatch(/^NoNewPrivs:\t1$/m);
  }
  await expect(container.exec("touch", "/opt/claw-mcp-stdio/file")).rejects.toThrow("Read-only file system");
});

it("the container's health follows its server, at the configured address", async () => {
  const unlessBroken = `test ! -e /tmp/broken && exec ${EXAMPLE_IN_CONTAINER.join(" ")}`;
  await using container = await Container.start({ args: ["sh", "-c", unlessBroken], flags: QUICK_HEALTHCHECK });
  expect(await container.waitForHealth("healthy")).toBe("ready");
  await container.exec("touch", "/tmp/broken");
  await container.exec("sh", "-c", `kill -KILL ${await container.serverPid()}`);
  expect(await container.waitForHealth("unhealthy")).toBe("not ready (HTTP 503)");
});

it("the health check finds the sidecar at the address of a flag", async () => {
  const args = ["--addr", "127.0.0.1:18081", "--", ...EXAMPLE_IN_CONTAINER];
  // The variable, which the flag overrides, has another port.
  await using container = await Container.start({ args, network: "none", flags: QUICK_HEALTHCHECK });
  expect(await container.waitForHealth("healthy")).toBe("ready");
  await container.waitForLog("listening", ({ address }) => address === "127.0.0.1:18081");
  const elsewhere = container.exec("claw-mcp-stdio", "-healthcheck", "--addr", "127.0.0.1:18082");
  await expect(elsewhere).rejects.toMatchObject({ code: 1, stdout: expect.stringContaining("127.0.0.1:18082") as string });
  const variable = ["exec", "--env", "CLAW_MCP_STDIO_ADDR=127.0.0.1:18083", container.id, "claw-mcp-stdio", "-healthcheck"];
  await expect(docker(...variable)).rejects.toMatchObject({ stdout: expect.stringContaining("127.0.0.1:18083") as string });
});

it("a server that npx cannot run from /tmp is reported with the option that helps", async () => {
  await using container = await Container.start({ args: NPX_EVERYTHING, flags: ["--tmpfs", "/tmp"] });
  const { exitCode, likelyCause } = await container.waitForLog("mcp server exited");
  expect([exitCode, likelyCause]).toEqual([126, expect.stringContaining("use --tmpfs /tmp:exec")]);
});

it("a server that npx downloads is served, and a volume saves the download of the next container", async () => {
  await using cache = await CacheVolume.create("/tmp/.npm");
  const { flags } = cache;
  {
    await using first = await Container.startReady({ args: NPX_EVERYTHING, flags });
    await using client = await SdkClient.connect(first.url);
    const { content } = await client.callTool({ name: "get-sum", arguments: { a: 2, b: 3 } });
    expect(content).toEqual([{ type: "text", text: "The sum of 2 and 3 is 5." }]);
  }
  const env = { npm_config_prefer_offline: "true" };
  await using offline = await Container.start({ args: NPX_EVERYTHING, flags, env, network: "none" });
  expect(await offline.waitForLog("mcp server ready")).toMatchObject({ generation: 1 });
});

it("docker run -it counts as a container: a server that cannot start is tried again until Ctrl-C", async () => {
  const flags = ["run", "-it", "--rm", "--network", "none", ...LEAST_PRIVILEGE.split(" ")];
  await using terminal = new TerminalRun(["docker", ...flags, IMAGE, "node", "-e", "process.exit(3)"], {});
  await terminal.waitFor(/mcp server will be restarted/);
  expect(await terminal.interrupt()).toBe(0);
});

it("a server that npx builds from git is served, under an arbitrary user id", async () => {
  await using container = await Container.startReady({ args: ["sh", "-c", NPX_FROM_REPOSITORY], flags: ["--user", "12345:12345"] });
  const client = await new McpClient(container.url).open();
  expect(await client.toolText("add", { a: 2, b: 3 })).toBe("5");
  const status = await container.exec("cat", `/proc/${await container.serverPid()}/status`);
  expect(status).toMatch(/^Uid:\t12345\t/m);
});

it("the image contains git and certificates for Python servers", async () => {
  await using container = await Container.startReady({ args: ["python3", "/fixtures/python_server.py"] });
  const client = await new McpClient(container.url).open();
  expect(JSON.parse(await client.toolText("found"))).toEqual({
    git: "git version",
    hasCertificates: true,
    python: { base: "/usr", isVirtual: false },
    file: "/fixtures/python_server.py",
  });
});

it("a pod's discovery works with a fresh token, even while npx still downloads", async () => {
  const [command, ...args] = NPX_EVERYTHING;
  await using container = await Container.start({
    env: { CLAW_MCP_STDIO_COMMAND: command, CLAW_MCP_STDIO_ARGS: JSON.stringify(args), CLAW_MCP_STDIO_AUTH_TOKEN: "fresh" },
  });
  const { origin } = container;
  const client = new DiscoveryClient({ origin, token: "fresh", service: "svc", command, args, wrapperImage: IMAGE });
  const snapshot = await client.discover();
  expect(snapshot.tools.map(({ name }) => name)).toContain("get-sum");
  expect(snapshot["x-claw-discovery"]).toMatchObject({ mcp_protocol_version: "2025-11-25", tool_count: snapshot.tools.length });
  // 0: nothing listened yet.
  expect(client.healthStatuses.filter((status) => status !== 0 && status !== 503)).toEqual([200]);
});

it("SIGTERM with a session open exits with code 0 in less than 2 s", async () => {
  await using container = await Container.startReady({ args: EXAMPLE_IN_CONTAINER });
  await new McpClient(container.url).open();
  expect(await msToEndAtSigterm(container)).toBeLessThan(2000);
});

it("SIGTERM while npx still downloads exits with code 0 in less than 2 s", async () => {
  // A registry that never answers.
  await using registry = createServer().listen(0, "127.0.0.1");
  await once(registry, "listening");
  const { port } = registry.address() as AddressInfo;
  const asked = once(registry, "request");
  await using container = await Container.start({ args: NPX_EVERYTHING, env: { npm_config_registry: `http://127.0.0.1:${port}` } });
  await asked;
  expect(await msToEndAtSigterm(container)).toBeLessThan(2000);
});

it("the session survives SIGKILL of its server, and no process or zombie remains", async () => {
  // A killed server's children have no parent, so PID 1 has to reap them.
  await using container = await Container.startReady({ args: ["sh", "-c", `sleep 1000 & exec ${EXAMPLE_IN_CONTAINER.join(" ")}`] });
  const client = await new McpClient(container.url).open();
  const serverPid = await container.serverPid();
  const sleeper = (await container.processes()).find(({ name }) => name === "sleep");
  expect(sleeper).toBeDefined();

  await container.exec("sh", "-c", `kill -KILL ${serverPid}`);
  await container.waitForLog("mcp server ready", ({ generation }) => generation === 2);
  expect(await client.toolText("add", { a: 2, b: 3 })).toBe("5");

  const left = async (): Promise<readonly unknown[]> =>
    (await container.processes()).filter(({ pid, state }) => pid === serverPid || pid === sleeper?.pid || state === "Z");
  // There is no event for reaping by PID 1.
  const deadlineMs = performance.now() + REAP_TIMEOUT_MS;
  while ((await left()).length > 0 && performance.now() < deadlineMs) await delay(50);
  expect(await left()).toEqual([]);
});
