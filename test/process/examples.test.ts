import { execFile } from "node:child_process";
import { readdirSync, readFileSync, statSync } from "node:fs";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Option, VARIABLE_PREFIX } from "../../src/config/option.ts";
import { OPTIONS } from "../../src/config/options.ts";
import { CALL_TIMEOUT_MS, ConsumerClient } from "../support/consumer-client.ts";
import { serverEnvironment, startDeclared } from "../support/declared-sidecar.ts";
import { EXAMPLES, parseDocuments, parseExample, readExample } from "../support/example-files.ts";
import { EXAMPLE, Sidecar } from "../support/sidecar.ts";
import { readStatus } from "../support/status.ts";
import { TempDir } from "../support/temp-dir.ts";

const TOKEN = "a-token-for-the-examples";
const CHOSEN = ["echo", '{"text":"it\'s \\"me\\""}'];
const RESULT = '{"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"5"}]}}\n';

function run(file: string, args: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<{ readonly stdout: string }> {
  return promisify(execFile)(file, args, { env: { PATH: process.env["PATH"], ...env } });
}

/** Returns the sidecar's variables that a document sets: by key in Compose, by `name` and `value` in Kubernetes. */
function variablesIn(node: unknown): (readonly [name: string, value: string])[] {
  if (typeof node !== "object" || node === null) return [];
  const { name, value } = node as { readonly name?: unknown; readonly value?: unknown };
  const entries = typeof name === "string" && value !== undefined ? [[name, value] as const] : Object.entries(node);
  return entries.flatMap(([key, each]) => (key.startsWith(VARIABLE_PREFIX) ? [[key, String(each)] as const] : variablesIn(each)));
}

interface ComposeService {
  readonly environment: Readonly<Record<string, string>>;
  readonly expose: readonly string[];
  readonly networks: readonly string[];
  readonly image: string;
}

interface PodService extends Partial<ComposeService> {
  readonly "x-claw": { readonly "mcp-stdio": { readonly command: string; readonly args: readonly string[] } };
}

describe.each([
  { what: "without a token", env: {} },
  { what: "with a token", env: { CLAW_MCP_STDIO_AUTH_TOKEN: TOKEN } },
])("the clients of the examples, $what", ({ env }) => {
  let sidecar: Sidecar;
  beforeAll(async () => {
    sidecar = await Sidecar.start({ command: [process.execPath, EXAMPLE], env });
  });
  afterAll(() => sidecar[Symbol.asyncDispose]());

  async function openSessions(): Promise<number> {
    return (await readStatus(sidecar, { Authorization: `Bearer ${TOKEN}` })).sessions;
  }

  it.each(["sh", "bash"])("session.sh in %s prints a tool's result and ends its session", async (shell) => {
    const { stdout } = await run(shell, [`${EXAMPLES}session.sh`, sidecar.url], env);
    expect(stdout).toBe(RESULT);
    const chosen = await run(shell, [`${EXAMPLES}session.sh`, sidecar.url, ...CHOSEN], env);
    expect((JSON.parse(chosen.stdout) as { result: object }).result).toEqual({ content: [{ type: "text", text: `it's "me"` }] });
    expect(await openSessions()).toBe(0);
  });

  it.each(["session.sh", "stateless.sh"])("%s prints a JSON-RPC error to stderr, and exits with 1", async (script) => {
    await using strict = await Sidecar.start({ command: [process.execPath, EXAMPLE], flags: ["--allow-tools", "echo"], env });
    const failing = run(`${EXAMPLES}${script}`, [strict.url], env);
    await expect(failing).rejects.toMatchObject({ code: 1, stdout: "", stderr: expect.stringContaining("-32602") as string });
  });

  it.each(["sh", "bash"])("stateless.sh in %s prints a tool's result, without a session", async (shell) => {
    const { stdout } = await run(shell, [`${EXAMPLES}stateless.sh`, sidecar.url], env);
    expect((JSON.parse(stdout) as { result: object }).result).toMatchObject({ resultType: "complete", content: [{ text: "5" }] });
    const chosen = await run(shell, [`${EXAMPLES}stateless.sh`, sidecar.url, ...CHOSEN], env);
    expect((JSON.parse(chosen.stdout) as { result: object }).result).toMatchObject({ content: [{ type: "text", text: `it's "me"` }] });
    expect((await readStatus(sidecar, { Authorization: `Bearer ${TOKEN}` })).counters.http.responses).not.toHaveProperty("400");
  });

  it("the commands in examples/README.md run as written, and end their sessions", async () => {
    const commands = /```sh\n(.*?)```/s.exec(readExample("README.md"))?.[1] ?? "";
    const script = commands.replaceAll("http://localhost:8080/mcp", sidecar.url).replaceAll("examples/", EXAMPLES);
    const { stdout } = await run("bash", ["-euc", script], env);
    const [first, second, ...lines] = stdout.split("\n");
    expect([`${first}\n`, lines]).toEqual([RESULT, ["tools: echo, add", "2 + 3 = 5", ""]]);
    expect(JSON.parse(second ?? "")).toMatchObject({ id: 1, result: { content: [{ text: "5" }] } });
    expect(await openSessions()).toBe(0);
  });
});

describe("the clients of the examples", () => {
  it.each([
    { file: "sh", script: "session.sh", says: "401" },
    { file: "sh", script: "stateless.sh", says: "401" },
    { file: process.execPath, script: "client/client.js", says: "UNAUTHORIZED" },
  ])("$script fails with the reason if the token is wrong", async ({ file, script, says }) => {
    await using sidecar = await Sidecar.start({ command: [process.execPath, EXAMPLE], env: { CLAW_MCP_STDIO_AUTH_TOKEN: TOKEN } });
    const failure = run(file, [`${EXAMPLES}${script}`, sidecar.url], { CLAW_MCP_STDIO_AUTH_TOKEN: "wrong" });
    await expect(failure).rejects.toMatchObject({ stdout: "", stderr: expect.stringContaining(says) as string });
  });

  it("session.sh prints the whole response to stderr if the path is wrong", async () => {
    await using sidecar = await Sidecar.start({ command: [process.execPath, EXAMPLE] });
    const response = expect.stringMatching(/^session\.sh: HTTP 404\n\{.*"code":"NOT_FOUND".*\}\n$/) as string;
    const failure = run(`${EXAMPLES}session.sh`, [`${sidecar.origin}/wrong`]);
    await expect(failure).rejects.toMatchObject({ code: 1, stdout: "", stderr: response });
  });
});

it("haproxy/start.sh ends with the reason if there is no HAProxy", async () => {
  const failure = promisify(execFile)("/bin/sh", [`${EXAMPLES}haproxy/start.sh`], { env: { PATH: "/nonexistent" } });
  const [what, reason] = [/^haproxy-example: three replicas/, "There is no haproxy. Install it, on Debian with: apt-get install haproxy\n"];
  await expect(failure).rejects.toMatchObject({ code: 1, stdout: expect.stringMatching(what) as string, stderr: reason });
});

describe("examples/pod", () => {
  const pod = (parseExample("pod/claw-pod.yml") as { services: { perplexity: PodService } }).services.perplexity;
  const compose = parseExample("pod/compose.yaml") as { services: { perplexity: ComposeService }; networks: object };
  const service = compose.services.perplexity;

  it("both files declare the same server", () => {
    const { command, args } = pod["x-claw"]["mcp-stdio"];
    const { CLAW_MCP_STDIO_COMMAND, CLAW_MCP_STDIO_ARGS = "", ...ofTheServer } = service.environment;
    expect({ command: CLAW_MCP_STDIO_COMMAND, args: JSON.parse(CLAW_MCP_STDIO_ARGS) as unknown }).toEqual({ command, args });
    const { image, expose, environment } = pod;
    expect({ image: service.image, expose: service.expose, environment: ofTheServer }).toEqual({ image, expose, environment });
    expect(service.expose).toEqual([OPTIONS.port.defaultText]);
  });

  it("a request times out before the consumer gives it up", () => {
    expect(Number(service.environment[OPTIONS.requestTimeoutMs.variable])).toBeLessThan(CALL_TIMEOUT_MS);
  });

  it("the consumer gets a truncated result instead of one that it cannot read", async () => {
    await using directory = await TempDir.create();
    await using running = await startDeclared(directory, service.environment);
    using consumer = new ConsumerClient(running.url);
    const outcome = await consumer.call("big", { length: 100_000 });
    expect(outcome).toMatchObject({ ok: true, text: expect.stringMatching(/^x{10000}/) as string });
  });

  it("the service has least privilege, the image's healthcheck, and an internal network", () => {
    expect(service).toMatchObject({
      restart: "on-failure",
      read_only: true,
      tmpfs: ["/tmp:exec"],
      cap_drop: ["ALL"],
      security_opt: ["no-new-privileges:true"],
    });
    expect(service).not.toHaveProperty("ports");
    expect(service).not.toHaveProperty("healthcheck");
    expect(service.networks).toContain("pod");
    expect(compose.networks).toMatchObject({ pod: { internal: true } });
  });

  it("the declared server starts with its key and without the sidecar's variables", async () => {
    await using directory = await TempDir.create();
    await using running = await startDeclared(directory, { ...service.environment, PERPLEXITY_API_KEY: "a-key" });
    const environment = await serverEnvironment(running.url);
    expect(environment).toMatchObject({ npm_lifecycle_event: "npx", PERPLEXITY_API_KEY: "a-key" });
    expect(Object.keys(environment).filter((name) => name.startsWith(VARIABLE_PREFIX))).toEqual([]);
  });
});

describe("the examples", () => {
  const files = readdirSync(EXAMPLES, { recursive: true, encoding: "utf8" }).filter((path) => statSync(`${EXAMPLES}${path}`).isFile());
  const options = new Map<string, Option<unknown>>(Object.values(OPTIONS).map((option) => [option.variable, option]));

  it("all variables that the examples name exist", () => {
    const names = files.flatMap((path) => readExample(path).match(/\bCLAW_MCP_STDIO_\w+/g) ?? []);
    expect(names).toContain(OPTIONS.authToken.variable);
    expect(names.filter((name) => name !== VARIABLE_PREFIX && !options.has(name))).toEqual([]);
  });

  it("all image names have the version of the package", () => {
    const { version } = JSON.parse(readFileSync(`${EXAMPLES}../package.json`, "utf8")) as { readonly version: string };
    const named = files.flatMap((path) => readExample(path).match(/\bclaw-mcp-stdio:\d[\w.-]*/g) ?? []);
    expect(new Set(named)).toEqual(new Set([`claw-mcp-stdio:${version}`]));
  });

  it("all values of variables are valid", () => {
    const given = files.filter((path) => /\.ya?ml$/.test(path)).flatMap((path) => variablesIn(parseDocuments(path)));
    expect(given.map(([name]) => name)).toEqual(expect.arrayContaining(["CLAW_MCP_STDIO_ARGS", "CLAW_MCP_STDIO_AUTH_TOKEN_FILE"]));
    expect(given.filter(([name, value]) => options.get(name)?.kind.parse(value) === undefined)).toEqual([]);
  });
});
