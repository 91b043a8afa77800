import { writeFile } from "node:fs/promises";
import { expect, it } from "vitest";
import { send } from "../support/http-client.ts";
import { initializeRequest, McpClient } from "../support/mcp-client.ts";
import { findSecrets, TELLTALE } from "../support/planted-secrets.ts";
import { HttpBench } from "../support/http-bench.ts";
import type { StartOptions, RunningSidecar } from "../support/running-sidecar.ts";
import { runMain } from "../support/sidecar.ts";
import { TempDir } from "../support/temp-dir.ts";

const TOKEN = "own-t0ken-0123456789";
const NEXT_TOKEN = "an0ther-t0ken-0123456789";
const ENVIRONMENT = {
  MY_API_KEY: "sk-0123456789abcdef",
  DB_PASSWORD: 'pass"word\\with €uro & space',
  TLS_PRIVATE_KEY: "-----BEGIN KEY-----\nMIIEvQIBADANBgkqh\n-----END KEY-----",
};
/** The secrets to look for; a key is looked for line by line. */
const PLANTED = [TOKEN, NEXT_TOKEN, ENVIRONMENT.MY_API_KEY, ENVIRONMENT.DB_PASSWORD, "MIIEvQIBADANBgkqh"];

function findPlanted(text: string): string[] {
  return findSecrets(text, PLANTED);
}

async function start(
  directory: TempDir,
  mode: string,
  tokens: string,
  { flags = [], ...options }: StartOptions = {},
): Promise<RunningSidecar> {
  const file = directory.file("tokens");
  await writeFile(file, tokens);
  return HttpBench.start({
    ...options,
    command: [...TELLTALE, mode],
    env: { ...ENVIRONMENT, PLANTED: JSON.stringify(PLANTED) },
    flags: ["--auth-token-file", file, "--log-level", "debug", ...flags],
  });
}

async function readAll(sidecar: RunningSidecar, token: string): Promise<string> {
  const paths = ["/livez", "/readyz", "/healthz", "/status", "/mcp", "/nothing-here"];
  const replies = await Promise.all(
    paths.flatMap((path) =>
      [{}, { Authorization: `Bearer ${token}` }, { Authorization: `Bearer ${token}x` }].map((headers) =>
        send(`${sidecar.origin}${path}`, { method: "GET", headers }),
      ),
    ),
  );
  return replies.map(({ headers, body }) => `${JSON.stringify(headers)}\n${body}`).join("\n");
}

it.each(["refuse", "refuse-clients"])("no endpoint or log reveals secrets in a failed handshake (%s)", async (mode) => {
  await using directory = await TempDir.create();
  await using sidecar = await start(directory, mode, `${TOKEN}\n${NEXT_TOKEN}`, {
    untilReady: mode !== "refuse",
    flags: ["--isolation", "session"],
  });
  const { body: refused } = await new McpClient(sidecar.url, { token: TOKEN }).post(initializeRequest());
  expect(refused).toContain("bad key: ***");
  const said = `${refused}\n${await readAll(sidecar, TOKEN)}`;
  await sidecar.stop();
  const log = sidecar.transcript();
  expect(log.includes("the MCP server answered initialize with an error")).toBe(mode === "refuse");
  expect(log).toContain("could not log in with ***, giving up");
  expect({ said: findPlanted(said), log: findPlanted(log) }).toEqual({ said: [], log: [] });
});

it("no endpoint or log reveals secrets in names of tools that have drifted", async () => {
  await using directory = await TempDir.create();
  const file = directory.file("reviewed.json");
  const server = [...TELLTALE, "normal"];
  expect(await runMain(["discover", "--out", file, "--", ...server], { PLANTED: '["reviewed"]' })).toMatchObject({ code: 0 });
  const flags = ["--descriptor", file, "--descriptor-mode", "warn", "--argument-check", "warn"];
  await using sidecar = await start(directory, "normal", `${TOKEN}\n${NEXT_TOKEN}`, { flags });
  const client = await sidecar.client({ token: TOKEN });
  for (const secret of PLANTED) await client.callTool(`use-${secret}`, { count: secret });
  const said = await readAll(sidecar, TOKEN);
  expect(said).toContain("use-***");
  await sidecar.stop();
  const log = sidecar.transcript();
  expect(log).toContain("use-***");
  expect({ said: findPlanted(said), log: findPlanted(log) }).toEqual({ said: [], log: [] });
});

it("a failed discover run reveals no secrets", async () => {
  const env = { ...ENVIRONMENT, PLANTED: JSON.stringify(PLANTED.slice(2)) };
  const { code, stdout, stderr } = await runMain(["discover", "--", ...TELLTALE, "refuse"], env);
  expect(code).toBe(1);
  expect(stderr).toContain("could not log in with ***, giving up");
  expect(findPlanted(`${stdout}\n${stderr}`)).toEqual([]);
});

it("a log line is omitted if masking its secrets would break its JSON", async () => {
  const secret = '"msg":"mcp server ready';
  await using sidecar = await HttpBench.start({ env: { ODD_TOKEN: secret }, untilReady: false });
  expect(await sidecar.waitForLog("log line not shown: a secret is part of it")).toEqual({
    level: "info",
    time: expect.any(String) as string,
    pid: process.pid,
    msg: expect.any(String) as string,
  });
  expect(await sidecar.waitForLog("listening")).toMatchObject({ path: "/mcp" });
});

it("secrets in a server's own results are left unchanged", async () => {
  await using directory = await TempDir.create();
  await using sidecar = await start(directory, "normal", `${TOKEN}\n${NEXT_TOKEN}`);
  const client = await sidecar.client({ token: TOKEN });
  expect(JSON.parse(await client.toolText("any"))).toEqual(PLANTED);
  const { result } = await client.request("tools/list");
  expect(result).toMatchObject({ tools: PLANTED.map((secret) => ({ name: `use-${secret}` })) });
  await sidecar.stop();
  expect(findPlanted(sidecar.transcript())).toEqual([]);
});

it("the output and problems of --check-config reveal no configured secret", async () => {
  const flags = ["--auth-token", TOKEN, "--check-config=json"];
  const inArguments = [...flags, "--", "server", ENVIRONMENT.MY_API_KEY, `--login=${ENVIRONMENT.DB_PASSWORD}`, "MIIEvQIBADANBgkqh", TOKEN];
  const shown = await runMain(inArguments, ENVIRONMENT);
  expect(shown.code).toBe(0);
  expect(JSON.parse(shown.stdout)).toMatchObject({ args: ["***", "--login=***", "***", "***"], authToken: "***" });
  const wrong = [`--path=${ENVIRONMENT.MY_API_KEY}`, `--addr=${ENVIRONMENT.DB_PASSWORD}`, `--port=${TOKEN}`, ...flags];
  const invalid = await runMain(["--", "server"], { CLAW_MCP_STDIO_AUTH_TOKEN: `${TOKEN} ${TOKEN}` });
  expect([invalid.code, invalid.stderr]).toEqual([2, expect.stringContaining("CLAW_MCP_STDIO_AUTH_TOKEN is not valid (value not shown)")]);
  const complained = await runMain([...wrong, "--", "server"], ENVIRONMENT);
  expect(complained.code).toBe(2);
  expect(complained.stderr).toContain('--path is "***"; expected');
  const forPeople = await runMain(inArguments.with(2, "--check-config"), ENVIRONMENT);
  expect(forPeople.stdout).toContain('ARGS = ["***","--login=***","***","***"]');
  for (const { stdout, stderr } of [shown, forPeople, invalid, complained]) expect(findPlanted(`${stdout}\n${stderr}`)).toEqual([]);
});

it("the path of a token file is not masked", async () => {
  await using directory = await TempDir.create();
  const file = directory.file("tokens-of-the-sidecar");
  await writeFile(file, TOKEN);
  const { stdout } = await runMain(["--check-config=json", "--", "server"], { CLAW_MCP_STDIO_AUTH_TOKEN_FILE: file });
  expect(JSON.parse(stdout)).toMatchObject({ authTokenFile: file });
  expect(findPlanted(stdout)).toEqual([]);
});

it("the server gets all variables unchanged, except for the token and the sidecar's own", async () => {
  const env = { EMPTY: "", SPECIAL: "a=b\n$HOME \"'` é", claw_mcp_stdio_lower: "kept", NOT_CLAW_MCP_STDIO_X: "kept" };
  const own = { CLAW_MCP_STDIO_AUTH_TOKEN: TOKEN, CLAW_MCP_STDIO_MAX_SESSIONS: "5", CLAW_MCP_STDIO_UNKNOWN: "x" };
  await using sidecar = await HttpBench.start({ env: { ...env, ...own } });
  const client = await sidecar.client({ token: TOKEN });
  expect(JSON.parse(await client.toolText("env"))).toEqual({ ...process.env, ...env });
});
