import { describe, expect, it } from "vitest";
import { send } from "../support/http-client.ts";
import { stopAndReadLog } from "../support/log-end.ts";
import { McpClient } from "../support/mcp-client.ts";
import { HttpBench } from "../support/http-bench.ts";
import { runMain } from "../support/sidecar.ts";

const TOKEN = "s3cret-Token.0123456789";

describe("the auth token", () => {
  it.each([
    ["variable", { env: { CLAW_MCP_STDIO_AUTH_TOKEN: TOKEN } }],
    ["flag", { flags: ["--auth-token", TOKEN] }],
  ])("neither a token from a %s nor a wrong token appears in the log", async (_what, { env = {}, flags = [] }: StartAs) => {
    await using sidecar = await HttpBench.start({ env, flags: [...flags, "--log-level", "debug"] });
    const client = await sidecar.client({ token: TOKEN });
    await client.toolText("echo", { text: "hello" });
    expect((await new McpClient(sidecar.url, { token: "wr0ng-token" }).post("{}")).status).toBe(401);
    await client.end();
    await stopAndReadLog(sidecar);
    expect(sidecar.logLines.length).toBeGreaterThan(2);
    expect(sidecar.transcript()).not.toContain(TOKEN);
    expect(sidecar.transcript()).not.toContain("wr0ng-token");
  });

  it("no health endpoint shows the token", async () => {
    await using sidecar = await HttpBench.start({ env: { CLAW_MCP_STDIO_AUTH_TOKEN: TOKEN } });
    for (const path of ["/livez", "/readyz", "/healthz"]) {
      const { status, body } = await send(`${sidecar.origin}${path}`, { method: "GET" });
      expect(status).toBe(200);
      expect(body).not.toContain(TOKEN);
    }
  });

  it.each([
    ["variable", [], { CLAW_MCP_STDIO_AUTH_TOKEN: TOKEN }],
    ["flag", ["--auth-token", TOKEN], {}],
  ])("--check-config masks a token from a %s", async (_what, flags, env: Record<string, string>) => {
    for (const [flag, shown] of [
      ["--check-config", "CLAW_MCP_STDIO_AUTH_TOKEN = ***"],
      ["--check-config=json", '"authToken": "***"'],
    ] as const) {
      const { code, stdout, stderr } = await runMain([...flags, flag, "--", "node"], env);
      expect(code).toBe(0);
      expect(stdout).toContain(shown);
      expect(stdout + stderr).not.toContain(TOKEN);
    }
  });

  it("the problem of an invalid token does not show it", async () => {
    const { code, stdout, stderr } = await runMain(["--", "node"], { CLAW_MCP_STDIO_AUTH_TOKEN: `${TOKEN} ${TOKEN}` });
    expect(code).toBe(2);
    expect(stderr).toContain("CLAW_MCP_STDIO_AUTH_TOKEN is not valid (value not shown); expected visible ASCII characters without spaces");
    expect(stdout + stderr).not.toContain(TOKEN);
  });

  it("the server gets all variables unchanged, except for the token and the sidecar's own", async () => {
    const env = {
      MY_API_KEY: "key-for-the-server",
      EMPTY: "",
      SPECIAL: "a=b\n$HOME \"'` é",
      claw_mcp_stdio_lower: "kept",
      NOT_CLAW_MCP_STDIO_X: "kept",
    };
    const own = {
      CLAW_MCP_STDIO_AUTH_TOKEN: TOKEN,
      CLAW_MCP_STDIO_LOG_LEVEL: "debug",
      CLAW_MCP_STDIO_MAX_SESSIONS: "5",
      CLAW_MCP_STDIO_UNKNOWN: "x",
    };
    await using sidecar = await HttpBench.start({ env: { ...env, ...own } });
    const client = await sidecar.client({ token: TOKEN });
    expect(JSON.parse(await client.toolText("env"))).toEqual({ ...process.env, ...env });
  });
});

interface StartAs {
  readonly env?: Readonly<Record<string, string>>;
  readonly flags?: readonly string[];
}
