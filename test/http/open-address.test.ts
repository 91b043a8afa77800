import { describe, expect, it } from "vitest";
import { HttpBench } from "../support/http-bench.ts";
import type { StartOptions } from "../support/running-sidecar.ts";

const OPEN = "no auth token is set: every client that reaches the address may call";
const TOKEN = "s3cret-Token.0123456789";

async function openLines(options: StartOptions): Promise<unknown[]> {
  await using sidecar = await HttpBench.start(options);
  await sidecar.stop();
  return sidecar.logLines.filter(({ msg }) => msg === OPEN).map(({ level, reason }) => ({ level, reason }));
}

/** The flags here override those of `HttpBench.start`, because the last of several flags counts. */
describe("a sidecar without a token", () => {
  it.each(["0.0.0.0:0", ":0", "[::]:0"])("the address %s causes one warning with advice", async (address) => {
    const reason = "set CLAW_MCP_STDIO_AUTH_TOKEN, or, outside a container, use --addr 127.0.0.1:0";
    expect(await openLines({ flags: ["--addr", address] })).toEqual([{ level: "warn", reason }]);
  });

  it.each(["127.0.0.1:0", "localhost:0", "127.1.2.3:0"])("the address %s causes no warning", async (address) => {
    expect(await openLines({ flags: ["--addr", address] })).toEqual([{ level: "info" }]);
  });

  it("the flag --require-auth=off overrides the variable", async () => {
    expect(await openLines({ flags: ["--require-auth=off"], env: { CLAW_MCP_STDIO_REQUIRE_AUTH: "on" } })).toEqual([{ level: "info" }]);
  });
});

describe("a sidecar with a token", () => {
  it("the sidecar starts without a warning, even with REQUIRE_AUTH", async () => {
    const env = { CLAW_MCP_STDIO_AUTH_TOKEN: TOKEN, CLAW_MCP_STDIO_REQUIRE_AUTH: "on" };
    expect(await openLines({ flags: ["--addr", "0.0.0.0:0"], env })).toEqual([]);
  });
});
