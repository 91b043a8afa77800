import { writeFile } from "node:fs/promises";
import type { IncomingHttpHeaders } from "node:http";
import { gunzipSync } from "node:zlib";
import { describe, expect, it } from "vitest";
import { disposeAfterAll } from "../support/dispose-after-all.ts";
import { OwnedResources } from "../support/owned-resources.ts";
import { TempDir } from "../support/temp-dir.ts";
import { type HttpReply, send, startRequest } from "../support/http-client.ts";
import { initializeRequest, JSON_HEADERS } from "../support/mcp-client.ts";
import { freePort } from "../support/open-sockets.ts";
import { openUnread } from "../support/open-sockets.ts";
import { PageClient } from "../support/page-client.ts";
import { HttpBench } from "../support/http-bench.ts";
import type { RunningSidecar } from "../support/running-sidecar.ts";
import { runMain } from "../support/sidecar.ts";
import { QUICK_RESTART } from "../support/fixture-server.ts";

const TOKEN = "a-token-of-enough-length";

function get(url: string, headers: Readonly<Record<string, string>> = {}): Promise<HttpReply> {
  return send(url, { method: "GET", headers });
}

/** Returns the bytes as they are sent. */
async function getBytes(url: string, encoding: string): Promise<{ readonly headers: IncomingHttpHeaders; readonly bytes: Buffer }> {
  const response = await startRequest(url, { method: "GET", headers: { "Accept-Encoding": encoding } }).response;
  return { headers: response.headers, bytes: Buffer.concat((await response.toArray()) as Buffer[]) };
}

async function filesOf(origin: string): Promise<string[]> {
  const { body } = await get(`${origin}/`);
  return [...body.matchAll(/(?:src|href)="(page\/[^"]+)"/g)].map(([, path]) => `/${path}`);
}

describe("the files of the page", async () => {
  const sidecar = disposeAfterAll(await HttpBench.start());

  it("the page has no script of its own, runs those of the sidecar only, and cannot be framed", async () => {
    const { status, body, headers } = await get(`${sidecar.origin}/`);
    expect(status).toBe(200);
    expect(headers["content-type"]).toBe("text/html; charset=utf-8");
    const policy = String(headers["content-security-policy"]).split("; ");
    expect(policy).toEqual(
      expect.arrayContaining(["default-src 'none'", "script-src 'self'", "connect-src 'self'", "frame-ancestors 'none'"]),
    );
    expect(headers["x-frame-options"]).toBe("DENY");
    expect(body).not.toMatch(/<script[^>]*>[^<]|\son\w+=|style=|https?:/);
    expect((await filesOf(sidecar.origin)).length).toBeGreaterThan(1);
  });

  it("each file is the same with and without compression, and may be cached for ever", async () => {
    for (const path of await filesOf(sidecar.origin)) {
      const compressed = await getBytes(`${sidecar.origin}${path}`, "gzip, br");
      const plain = await getBytes(`${sidecar.origin}${path}`, "identity");
      expect([compressed.headers["content-encoding"], plain.headers["content-encoding"]]).toEqual(["gzip", undefined]);
      expect(gunzipSync(compressed.bytes).equals(plain.bytes)).toBe(true);
      expect(plain.headers["cache-control"]).toContain("immutable");
      expect(plain.headers["cross-origin-resource-policy"]).toBe("same-origin");
    }
  });

  it("a file that does not exist gets a clear error, and no file outside of the page is read", async () => {
    for (const name of ["app-00000000.js", "index.html", "%ff", "%", "..%2Fmain.js", "%2e%2e/main.js", "__proto__", ""]) {
      const { status, body } = await get(`${sidecar.origin}/page/${name}`);
      expect
        .soft([name, status, (JSON.parse(body) as { error: { data: { code: string } } }).error.data.code])
        .toEqual([name, 404, "NOT_FOUND"]);
    }
  });

  it("a client that has the URL without its path is told the path", async () => {
    const url = `${sidecar.origin}/`;
    const posted = await send(url, { headers: { "Content-Type": "application/json" }, body: "{}" });
    const streamed = await get(url, { Accept: "text/event-stream" });
    expect([posted.status, streamed.status]).toEqual([405, 404]);
    for (const { body } of [posted, streamed]) expect(body).toMatch(/the MCP endpoint is \/mcp\./i);
  });
});

describe.concurrent("PAGE", () => {
  it("is on if only this machine can reach the address, and off elsewhere", async () => {
    await using local = await HttpBench.start();
    await using open = await HttpBench.start({ flags: ["--addr", ":0"] });
    await using chosen = await HttpBench.start({ flags: ["--addr", ":0", "--page", "on"] });
    await using off = await HttpBench.start({ flags: ["--page", "off"] });
    const origins = [local, open, chosen, off].map(({ origin }) => origin.replace("[::]", "127.0.0.1"));
    const statuses = await Promise.all(origins.map(async (origin) => (await get(`${origin}/`)).status));
    expect(statuses).toEqual([200, 404, 200, 404]);
    expect((await get(`${origins[1]}/`)).body).toContain("--page on shows a page here.");
    expect((await get(`${origins[1]}/page/events`)).status).toBe(404);
  });

  it("an endpoint at / leaves no room for the page", async () => {
    await using sidecar = await HttpBench.start({ flags: ["--path", "/"] });
    const { status, body } = await send(`${sidecar.origin}/`, { method: "GET", headers: { Accept: "text/html" } });
    expect([status, body.includes("<html")]).toEqual([400, false]);
    const { code, stderr } = await runMain(["--path", "/", "--page", "on", "--", "true"]);
    expect([code, stderr]).toEqual([2, expect.stringContaining('--path is "/", but PAGE needs / and /page/events')]);
  });

  it("is at ADMIN_ADDR, and cannot call there", async () => {
    const port = await freePort();
    await using sidecar = await HttpBench.start({ flags: ["--admin-addr", `127.0.0.1:${port}`] });
    expect((await get(`${sidecar.origin}/`)).status).toBe(404);
    expect((await get(`http://127.0.0.1:${port}/`)).status).toBe(200);
    using page = await PageClient.open({ origin: `http://127.0.0.1:${port}` });
    expect((await page.next())?.state.endpointPath).toBeNull();
  });
});

describe.concurrent("the events of the page", () => {
  it("the first update has the exit of a server that cannot start", async () => {
    await using sidecar = await HttpBench.start({ mode: "exit-at-initialize", untilReady: false });
    await sidecar.waitForLog("mcp server exited");
    using page = await PageClient.open(sidecar);
    const { generations } = (await page.next()) ?? {};
    expect(generations?.[0]).toMatchObject({ lane: "shared", number: 1, readyAt: null, exit: { kind: "crash", exitCode: 3 } });
  });

  it("the first update has the history, and later ones have what is new", async () => {
    await using sidecar = await HttpBench.start({ flags: QUICK_RESTART });
    const client = await sidecar.client();
    await client.callTool("echo", { text: "not shown" });
    await client.callTool("stderr_and_exit", { count: 2, code: 3 });
    await sidecar.waitForLog("mcp server ready", (line) => line["generation"] === 2);
    using page = await PageClient.open(sidecar);
    const first = await page.next();
    expect(first?.state).toMatchObject({ state: "ready", generation: 2, restarts: 1, sessions: 1, endpointPath: "/mcp" });
    expect(first?.generations).toMatchObject([
      { lane: "shared", number: 1, exit: { kind: "crash", exitCode: 3, stderrTail: ["last words 1", "last words 2"] } },
      { lane: "shared", number: 2, exit: null },
    ]);
    expect(first?.requests.map(({ method, tool, ending }) => [method, tool, ending])).toEqual([
      ["initialize", null, "results"],
      ["tools/call", "echo", "results"],
      ["tools/call", "stderr_and_exit", "UPSTREAM_EXITED"],
    ]);
    expect(first?.logLines.map((line) => (JSON.parse(line) as { msg: string }).msg)).toEqual(
      expect.arrayContaining(["listening", "mcp server exited"]),
    );
    await client.request("tools/list");
    const seen = await page.until(({ requests }) => requests.length > 3);
    expect(seen.requests.at(-1)?.method).toBe("tools/list");
    expect(JSON.stringify(seen)).not.toContain("not shown");
  });

  it("the history has at most 200 requests, 200 lines of the log, and two minutes", async () => {
    await using sidecar = await HttpBench.start({ env: { CLAW_MCP_STDIO_LOG_LEVEL: "debug", CLAW_MCP_STDIO_REQUEST_LOG: "all" } });
    const client = await sidecar.client();
    for (let index = 0; index < 250; index++) await client.request("ping");
    using page = await PageClient.open(sidecar);
    const first = await page.next();
    expect([first?.requests.length, first?.logLines.length]).toEqual([200, 200]);
    expect(first?.seconds.length).toBeLessThanOrEqual(120);
  });

  it("counts the requests of each second, and those that failed", async () => {
    await using sidecar = await HttpBench.start();
    using page = await PageClient.open(sidecar);
    const client = await sidecar.client();
    for (let index = 0; index < 5; index++) await client.request("tools/list");
    await client.request("tools/call", {
      name: "raw_line",
      arguments: { line: '{"jsonrpc":"2.0","id":$ID,"error":{"code":1,"message":"no"}}' },
    });
    const sum = (counts: readonly number[]): number => counts.reduce((total, each) => total + each, 0);
    const { seconds } = await page.until((seen) => sum(seen.seconds.map(({ requests }) => requests)) >= 7);
    expect([sum(seconds.map(({ requests }) => requests)), sum(seconds.map(({ errors }) => errors))]).toEqual([7, 1]);
    expect(seconds.map(({ longestMs }) => longestMs > 0)).toEqual(seconds.map(({ requests }) => requests > 0));
    const times = seconds.map(({ number }) => number);
    expect(times.every((each, index) => index === 0 || each === (times[index - 1] ?? 0) + 1)).toBe(true);
  });

  it("masks secrets in the command, the log and the names of requests", async () => {
    const secret = "planted-secret-0123456789";
    await using sidecar = await HttpBench.start({ fixtureArgs: ["--api-key", secret], env: { PLANTED_API_KEY: secret } });
    const client = await sidecar.client();
    await client.request("tools/call", { name: secret });
    await client.request(`x/${secret}`);
    using page = await PageClient.open(sidecar);
    const seen = await page.until(({ requests }) => requests.length >= 3);
    expect(JSON.stringify(seen)).not.toContain(secret);
    expect(seen.state.command).toContain("***");
    expect(seen.requests.map(({ tool }) => tool)).toContain("***");
  });

  it("need the token if there is one, and end when it is revoked", async () => {
    await using directory = await TempDir.create();
    const file = directory.file("tokens");
    await writeFile(file, `${TOKEN}\nanother-token-of-length\n`);
    await using sidecar = await HttpBench.start({ flags: ["--auth-token-file", file] });
    using refused = await PageClient.open(sidecar);
    using wrong = await PageClient.open(sidecar, { Authorization: "Bearer wrong-token-0123456789" });
    expect([refused.status, wrong.status]).toEqual([401, 401]);
    using page = await PageClient.open(sidecar, { Authorization: `Bearer ${TOKEN}` });
    expect((await page.next())?.state.state).toBe("ready");
    await writeFile(file, "another-token-of-length\n");
    await expect(async () => {
      while ((await page.next()) !== undefined);
      throw new Error("ended");
    }).rejects.toThrow(/aborted|ended/);
  });

  it("a ninth page replaces the oldest one, even if that does not read", async () => {
    await using sidecar = await HttpBench.start();
    using deaf = await openUnread(sidecar.origin, "GET /page/events HTTP/1.1\r\nHost: localhost\r\nClaw-Mcp-Stdio-Page: 1\r\n\r\n");
    const pages = new OwnedResources();
    await using _ = pages;
    const opened: PageClient[] = [];
    for (let index = 0; index < 9; index++) opened.push(pages.use(await PageClient.open(sidecar)));
    const [first, second] = opened;
    while ((await first?.next()) !== undefined);
    expect((await second?.next())?.state.state).toBe("ready");
    expect((await opened.at(-1)?.next())?.state.state).toBe("ready");
    expect(deaf.readableFlowing).toBe(false);
  });

  it("the last update shows that the sidecar stops, and an open page does not delay its end", async () => {
    await using sidecar = await HttpBench.start();
    using page = await PageClient.open(sidecar);
    await page.next();
    expect(await sidecar.stop()).toBe(0);
    let last = await page.next();
    for (let update = last; update !== undefined; update = await page.next()) last = update;
    expect(last?.state.state).toBe("stopping");
  });
});

describe.concurrent("calls of the page", () => {
  async function statusOf(sidecar: RunningSidecar, host: string, origin: string, token?: string): Promise<number> {
    const { status } = await send(`${sidecar.origin.replace("[::]", "127.0.0.1")}/mcp`, {
      method: "POST",
      headers: { ...JSON_HEADERS, Host: host, Origin: origin, ...(token === undefined ? {} : { Authorization: `Bearer ${token}` }) },
      body: JSON.stringify(initializeRequest()),
    });
    return status;
  }

  it("are accepted at any address by which people open it, but not at names that DNS rebinding can use", async () => {
    await using sidecar = await HttpBench.start({ flags: ["--addr", ":0", "--page", "on"] });
    expect(await statusOf(sidecar, "10.0.0.5:8080", "http://10.0.0.5:8080")).toBe(200);
    expect(await statusOf(sidecar, "mcp.svc:8080", "http://mcp.svc:8080")).toBe(200);
    expect(await statusOf(sidecar, "10.0.0.5:8080", "http://10.0.0.5:3000")).toBe(403);
    expect(await statusOf(sidecar, "10.0.0.5:8080", "http://10.0.0.6:8080")).toBe(403);
    expect(await statusOf(sidecar, "attacker.example:8080", "http://attacker.example:8080")).toBe(403);
  });

  it("need a token at other names, and no page at all if it is off", async () => {
    await using secured = await HttpBench.start({ flags: ["--addr", ":0", "--page", "on"], env: { CLAW_MCP_STDIO_AUTH_TOKEN: TOKEN } });
    expect(await statusOf(secured, "mcp.example", "https://mcp.example", TOKEN)).toBe(200);
    expect(await statusOf(secured, "mcp.example", "https://mcp.example")).toBe(401);
    await using off = await HttpBench.start({ flags: ["--addr", ":0"] });
    expect(await statusOf(off, "10.0.0.5:8080", "http://10.0.0.5:8080")).toBe(403);
  });
});
