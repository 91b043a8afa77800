import { describe, expect, it } from "vitest";
import { disposeAfterAll } from "../support/dispose-after-all.ts";
import { type HttpReply, send } from "../support/http-client.ts";
import { HttpBench } from "../support/http-bench.ts";
import type { RunningSidecar } from "../support/running-sidecar.ts";

const TOKEN = "s3cret-Token.0123456789";
const NO_RESTART = ["--restart-backoff-ms", "600000", "--restart-max-ms", "600000"];
const STATE_ONLY = { status: "not-ready", state: "backing-off" };
const LAST_WORDS = "the last words of the server";

/** Starts a sidecar whose server has exited after a line on stderr. */
async function start(flags: readonly string[], token?: string): Promise<RunningSidecar> {
  const env = { CLAW_MCP_STDIO_AUTH_TOKEN: token ?? "" };
  const sidecar = await HttpBench.start({ flags: [...NO_RESTART, ...flags], env });
  const client = await sidecar.client({ token });
  await client.toolText("stderr", { text: LAST_WORDS });
  await client.callTool("exit", { code: 3 });
  await sidecar.waitForLog("mcp server will be restarted");
  return sidecar;
}

describe.each(["/readyz", "/healthz"])("%s", (path) => {
  describe("with a token", async () => {
    const sidecar = disposeAfterAll(await start([], TOKEN));
    const ask = (headers: Readonly<Record<string, string>>): Promise<HttpReply> =>
      send(`${sidecar.origin}${path}`, { method: "GET", headers });

    it.each([undefined, "Bearer wrong", "Bearer", TOKEN])("a request with authorization %s gets only the state", async (authorization) => {
      const { status, body } = await ask(authorization === undefined ? {} : { Authorization: authorization });
      expect({ status, body: JSON.parse(body) as unknown }).toStrictEqual({ status: 503, body: STATE_ONLY });
    });

    it("a client with the token gets all details", async () => {
      const { status, body } = await ask({ Authorization: `Bearer ${TOKEN}` });
      expect({ status, body: JSON.parse(body) as unknown }).toMatchObject({
        status: 503,
        body: { lastExit: { stderrTail: [LAST_WORDS] } },
      });
    });

    it.each([{ Host: "evil.com" }, { Origin: "https://evil.com" }])(
      "a web page gets only the state, even with the token: %j",
      async (headers) => {
        expect(JSON.parse((await ask({ ...headers, Authorization: `Bearer ${TOKEN}` })).body)).toStrictEqual(STATE_ONLY);
      },
    );
  });

  describe("without a token", () => {
    it("a local client gets all details, and a DNS-rebinding page only the state", async () => {
      await using sidecar = await start([]);
      const ask = (headers: Readonly<Record<string, string>>): Promise<HttpReply> =>
        send(`${sidecar.origin}${path}`, { method: "GET", headers });
      expect((await ask({})).body).toContain(LAST_WORDS);
      const port = new URL(sidecar.origin).port;
      for (const headers of [{ Host: `rebound.evil.com:${port}` }, { Origin: "https://evil.com" }, { Origin: "null" }]) {
        const { status, body, headers: answered } = await ask(headers);
        expect({ status, body: JSON.parse(body) as unknown }).toStrictEqual({ status: 503, body: STATE_ONLY });
        expect(answered).not.toHaveProperty("access-control-allow-origin");
      }
    });

    it("a request to an unlisted host gets only the state", async () => {
      await using sidecar = await start(["--allowed-hosts", "mcp.example"]);
      const bodyFor = async (host: string): Promise<string> =>
        (await send(`${sidecar.origin}${path}`, { method: "GET", headers: { Host: host } })).body;
      expect(await bodyFor("mcp.example")).toContain(LAST_WORDS);
      // A kubelet's probe has such a host.
      expect(JSON.parse(await bodyFor("10.1.2.3:8080"))).toStrictEqual(STATE_ONLY);
    });
  });
});

describe("a sidecar that listens beyond loopback", () => {
  it("a DNS-rebinding page gets only the state, and no /status", async () => {
    await using sidecar = await start(["--addr", "0.0.0.0:0"]);
    const ask = (path: string, host: string): Promise<HttpReply> =>
      send(`${sidecar.origin}${path}`, { method: "GET", headers: { Host: host } });
    for (const host of ["10.1.2.3:8080", "mcp-sidecar:8080"]) {
      expect((await ask("/readyz", host)).body).toContain(LAST_WORDS);
      expect((await ask("/status", host)).body).toContain(LAST_WORDS);
    }
    expect(JSON.parse((await ask("/readyz", "rebound.evil.com:8080")).body)).toStrictEqual(STATE_ONLY);
    const { status, body } = await ask("/status", "rebound.evil.com:8080");
    expect(status).toBe(403);
    expect(body).toContain("HOST_NOT_ALLOWED");
  });

  it("a client with the token gets /status under any host name", async () => {
    await using sidecar = await start(["--addr", "0.0.0.0:0"], TOKEN);
    const headers = { Host: "mcp.example", Authorization: `Bearer ${TOKEN}` };
    expect((await send(`${sidecar.origin}/status`, { method: "GET", headers })).body).toContain(LAST_WORDS);
  });
});
