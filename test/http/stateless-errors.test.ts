import { describe, expect, it } from "vitest";
import { disposeAfterAll } from "../support/dispose-after-all.ts";
import { failureOf } from "../support/error-reply.ts";
import { Gate } from "../support/fixture-server.ts";
import { type HttpCall, send } from "../support/http-client.ts";
import { JSON_HEADERS } from "../support/mcp-client.ts";
import { MODERN_VERSION, type ModernReply } from "../support/modern-client.ts";
import { readStatus } from "../support/status.ts";
import { HttpBench } from "../support/http-bench.ts";

const TOKEN = "s3cret-Token.0123456789";
const MODERN_HEADERS = { ...JSON_HEADERS, "MCP-Protocol-Version": MODERN_VERSION, Authorization: `Bearer ${TOKEN}` };
/** The search for the server's era is part of the time of the first request. */
const NO_SEARCH = ["--child-era", "legacy"];

/** Returns the error, and the seconds after which its client may try again. */
function busy(reply: ModernReply): readonly unknown[] {
  return [...failureOf(reply), reply.headers["retry-after"], reply.error?.data?.["retryAfterSeconds"], reply.error?.data?.["sent"]];
}

describe("the sidecar's own errors before a request is read", async () => {
  const sidecar = disposeAfterAll(await HttpBench.start({ env: { CLAW_MCP_STDIO_AUTH_TOKEN: TOKEN } }));

  it.each<[dataCode: string, status: number, code: number, call: HttpCall]>([
    ["HOST_NOT_ALLOWED", 403, -32603, { headers: { Host: "evil.com" } }],
    ["METHOD_NOT_ALLOWED", 405, -32603, { method: "PATCH" }],
    ["NOT_ACCEPTABLE", 406, -32603, { headers: { Accept: "text/html" } }],
    ["INVALID_REQUEST", 400, -32600, { body: '{"jsonrpc":"2.0"}' }],
    ["INVALID_REQUEST", 400, -32600, { body: '{"jsonrpc":"2.0","id":null,"method":"tools/list"}' }],
  ])("%s has the status %i and no code of earlier revisions", async (dataCode, status, code, call) => {
    const reply = await send(sidecar.url, { body: "{}", ...call, headers: { ...MODERN_HEADERS, ...call.headers } });
    expect(failureOf(reply)).toEqual([status, code, dataCode]);
    expect(JSON.parse(reply.body)).not.toHaveProperty("id");
  });

  it("the same errors keep their codes for clients with sessions", async () => {
    const { Authorization: _1, "MCP-Protocol-Version": _2, ...headers } = MODERN_HEADERS;
    expect(failureOf(await send(sidecar.url, { headers, body: "{}" }))).toEqual([401, -32000, "UNAUTHORIZED"]);
  });
});

describe("a server that is not ready", () => {
  it("requests that wait too long get 503, and so does a discovery", async () => {
    await using gate = await Gate.create();
    await using sidecar = await HttpBench.start({
      mode: "gated",
      env: gate.env,
      flags: [...NO_SEARCH, "--hold-timeout-ms", "50"],
      untilReady: false,
    });
    const client = sidecar.modernClient();
    for (const method of ["server/discover", "tools/list", "subscriptions/listen"]) {
      const reply = await client.request(method, { notifications: {} });
      expect(busy(reply)).toEqual([503, -32603, "UPSTREAM_NOT_READY", "1", 1, false]);
    }
    expect((await readStatus(sidecar)).counters).toMatchObject({ requests: { refused: { UPSTREAM_NOT_READY: 3 } } });
    expect((await client.request("ping")).status).toBe(404);
    await gate.open();
    await sidecar.waitForLog("mcp server ready");
    expect((await client.request("server/discover")).status).toBe(200);
  });

  it("a crash loop gives 503 at once", async () => {
    await using sidecar = await HttpBench.start({ mode: "exit-at-initialize", flags: ["--restart-backoff-ms", "1"], untilReady: false });
    await sidecar.waitForLog("mcp server failed: crash loop");
    for (const method of ["server/discover", "tools/list"]) {
      const reply = await sidecar.modernClient().request(method);
      expect(failureOf(reply)).toEqual([503, -32603, "UPSTREAM_FAILED"]);
      expect(reply.headers["retry-after"]).toMatch(/^\d+$/);
    }
  });
});
