import { describe, expect, it } from "vitest";
import { crashProcess } from "../support/crash.ts";
import { disposeAfterAll } from "../support/dispose-after-all.ts";
import { failureOf } from "../support/failure.ts";
import { Gate } from "../support/gate.ts";
import { GatedCalls } from "../support/gated-calls.ts";
import { type HttpCall, type HttpReply, send } from "../support/http-client.ts";
import { waitForHanging } from "../support/in-flight.ts";
import { JSON_HEADERS } from "../support/mcp-client.ts";
import { MODERN_VERSION, type ModernReply } from "../support/modern-client.ts";
import { readStatus } from "../support/status.ts";
import { HttpBench } from "../support/http-bench.ts";

const TOKEN = "s3cret-Token.0123456789";
const MODERN_HEADERS = { ...JSON_HEADERS, "MCP-Protocol-Version": MODERN_VERSION, Authorization: `Bearer ${TOKEN}` };
/** The search for the server's era is part of the time of the first request. */
const NO_SEARCH = ["--child-era", "legacy"];
const QUICK_RESTART = ["--restart-backoff-ms", "1", "--restart-max-ms", "20"];

/** Returns the error, and the seconds after which its client may try again. */
function busy(reply: ModernReply): readonly unknown[] {
  return [...failureOf(reply), reply.headers["retry-after"], reply.error?.data?.["retryAfterSeconds"], reply.error?.data?.["sent"]];
}

describe("the sidecar's own errors before a request is read", async () => {
  const sidecar = disposeAfterAll(
    await HttpBench.start({ env: { CLAW_MCP_STDIO_AUTH_TOKEN: TOKEN }, flags: ["--max-body-bytes", "2048"] }),
  );

  it.each<[dataCode: string, status: number, code: number, call: HttpCall]>([
    ["ORIGIN_NOT_ALLOWED", 403, -32603, { headers: { Origin: "https://evil.com" } }],
    ["HOST_NOT_ALLOWED", 403, -32603, { headers: { Host: "evil.com" } }],
    ["UNAUTHORIZED", 401, -32603, { headers: { Authorization: "Bearer other-Token.0123456789" } }],
    ["METHOD_NOT_ALLOWED", 405, -32603, { method: "PATCH" }],
    ["NOT_ACCEPTABLE", 406, -32603, { headers: { Accept: "text/html" } }],
    ["BODY_TOO_LARGE", 413, -32603, { body: " ".repeat(2049) }],
    ["UNSUPPORTED_MEDIA_TYPE", 415, -32603, { headers: { "Content-Type": "text/plain" } }],
    ["PARSE_ERROR", 400, -32700, { body: "{" }],
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

  it("requests that wait are answered by the next generation", async () => {
    await using gate = await Gate.create();
    await gate.open();
    await using sidecar = await HttpBench.start({ mode: "gated", env: gate.env, flags: QUICK_RESTART });
    const { childPid } = sidecar;
    const client = sidecar.modernClient();
    expect(await client.toolText("echo", { text: "before" })).toBe("before");
    await gate.close();
    await crashProcess(sidecar, childPid);
    await sidecar.waitForLog("mcp server started", (line) => line["generation"] === 2);
    const held = client.toolText("echo", { text: "after" });
    await gate.open();
    expect(await held).toBe("after");
  });

  it("requests above MAX_HELD_REQUESTS get 503 at once", async () => {
    await using gate = await Gate.create();
    await using sidecar = await HttpBench.start({ mode: "gated", env: gate.env, flags: ["--max-held-requests", "2"], untilReady: false });
    const client = sidecar.modernClient();
    const replies = [1, 2, 3].map((id) => client.callTool("echo", { text: String(id) }, { id }));
    const refused = await Promise.race(replies);
    expect(busy(refused)).toEqual([503, -32603, "UPSTREAM_NOT_READY", "1", 1, false]);
    await gate.open();
    const statuses = (await Promise.all(replies)).map(({ status }) => status);
    expect(statuses.toSorted((a, b) => a - b)).toEqual([200, 200, 503]);
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

describe("a request whose server is lost", () => {
  it("the call fails in a JSON-RPC error at 200, as it may have run", async () => {
    await using sidecar = await HttpBench.start({ flags: QUICK_RESTART });
    const reply = await sidecar.modernClient().callTool("exit", { code: 3 }, { id: "x" });
    expect([...failureOf(reply), reply.id]).toEqual([200, -32603, "UPSTREAM_EXITED", "x"]);
    expect(reply.error?.data).toMatchObject({ sent: true, retrySafe: false, exitCode: 3 });
  });

  it("in a stream, the error is the last event", async () => {
    await using sidecar = await HttpBench.start({ flags: ["--stream-after-ms", "1", ...QUICK_RESTART] });
    const { childPid } = sidecar;
    using stream = await sidecar.modernClient().beginTool("hang", {}, { id: "x" });
    await crashProcess(sidecar, childPid);
    expect(await stream.rest()).toMatchObject([{ id: "x", error: { code: -32603, data: { code: "UPSTREAM_EXITED", sent: true } } }]);
  });
});

describe("a request that takes too long", () => {
  it("the call fails with -32603 at 200, and the server is told", async () => {
    await using sidecar = await HttpBench.start({ flags: [...NO_SEARCH, "--tool-timeouts-ms", "hang=100"] });
    const client = sidecar.modernClient();
    // The tools are listed before the first call.
    await client.callTool("echo");
    expect(failureOf(await client.callTool("hang"))).toEqual([200, -32603, "REQUEST_TIMEOUT"]);
    expect(await client.toolText("seen")).toMatch(/notifications\/cancelled \d+/);
  });

  it("a queued call that is never sent gets 503", async () => {
    await using sidecar = await HttpBench.start({ flags: [...NO_SEARCH, "--max-in-flight", "1", "--hold-timeout-ms", "100"] });
    await using calls = await GatedCalls.create(sidecar);
    const control = await sidecar.client();
    const first = calls.post(control, "first");
    await calls.waitForReached(1);
    expect(busy(await sidecar.modernClient().callTool("echo"))).toEqual([503, -32603, "OVERLOADED", "1", 1, false]);
    await calls.letThrough("first");
    expect((await first).status).toBe(200);
  });
});

describe("the end of the sidecar", () => {
  it("new requests get 503 during the drain, and calls in flight finish", async () => {
    await using sidecar = await HttpBench.start();
    await using calls = await GatedCalls.create(sidecar);
    const client = sidecar.modernClient();
    const call = send(sidecar.url, client.compose("tools/call", (calls.message("last") as { params: Record<string, unknown> }).params));
    await calls.waitForReached(1);
    sidecar.kill("SIGTERM");
    await sidecar.waitForLog("stopping");
    for (const method of ["server/discover", "tools/list", "tools/call"]) {
      const reply = await client.request(method, { name: "echo" });
      expect(failureOf(reply)).toEqual([503, -32603, "SHUTTING_DOWN"]);
      expect(reply.headers["retry-after"]).toMatch(/^\d+$/);
    }
    await calls.letThrough("last");
    const reply: HttpReply = await call;
    expect([reply.status, reply.body]).toEqual([200, expect.stringContaining("the file is there")]);
    expect(await sidecar.ended).toBe(0);
  });

  it("a call that does not finish in time fails as sent", async () => {
    await using sidecar = await HttpBench.start({ flags: ["--drain-timeout-ms", "50"] });
    const control = await sidecar.client();
    const call = sidecar.modernClient().callTool("hang");
    await waitForHanging(control, 1);
    sidecar.kill("SIGTERM");
    const reply = await call;
    expect([...failureOf(reply), reply.error?.data?.["sent"]]).toEqual([200, -32603, "SHUTTING_DOWN", true]);
  });
});
