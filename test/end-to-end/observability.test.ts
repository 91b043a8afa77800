import { expect } from "vitest";
import { crash } from "../support/fixture-server.ts";
import { disposeAfterAll } from "../support/dispose-after-all.ts";
import { send } from "../support/http-client.ts";
import { JSON_HEADERS } from "../support/mcp-client.ts";
import { PageClient } from "../support/page-client.ts";
import { readStatus, waitForGeneration } from "../support/status.ts";
import { Series } from "../support/series.ts";
import { Sidecar } from "../support/sidecar.ts";
import { proves } from "./proves.ts";

/** More than the pipe and the sidecar's buffer for its log hold. */
const FLOOD = { count: 1300, length: 16_000 };
const DROPPED = "log lines dropped: stdout was not read";
const FAILING = { line: '{"jsonrpc":"2.0","id":$ID,"error":{"code":-1,"message":"CONTENT-error"}}' };

const flags = ["--restart-backoff-ms", "1", "--restart-max-ms", "20", "--allowed-origins", "https://app.example"];
const sidecar = disposeAfterAll(await Sidecar.start({ flags, fixtureArgs: ["argument-of-the-command"] }));
const client = await sidecar.client();

proves("/status has the state and the history", async () => {
  const { generation, counters } = await readStatus(sidecar);
  await crash(sidecar);
  await waitForGeneration(sidecar, generation + 1);
  await client.toolText("echo", { text: "counted" });
  const { body } = await send(`${sidecar.origin}/status`, { method: "GET" });
  expect(JSON.parse(body)).toMatchObject({
    status: "ready",
    state: "ready",
    pid: sidecar.childPid,
    generation: generation + 1,
    restarts: generation,
    sessions: 1,
    lastExit: { generation, kind: "signal", signal: "SIGKILL" },
    counters: { answers: { results: counters.answers.results + 1 }, exits: { signal: generation } },
  });
  expect(body).not.toContain("stdio-server");
  expect(body).not.toContain("argument-of-the-command");
});

proves("/metrics counts for Prometheus", async () => {
  for (let calls = 0; calls < 3; calls++) await client.toolText("echo", { text: "measured" });
  const { counters, restarts } = await readStatus(sidecar);
  const series = await Series.read(sidecar);
  expect(series.sum("claw_mcp_stdio_requests_ended_total", { ending: "results" })).toBe(counters.answers.results);
  expect(series.sum("claw_mcp_stdio_server_restarts_total")).toBe(restarts);
  const operations = "mcp_server_operation_duration_seconds_count";
  expect(series.sum(operations, { mcp_method_name: "tools/call", error_type: undefined })).toBeGreaterThanOrEqual(3);
  const { headers } = await send(`${sidecar.origin}/metrics`, { method: "GET" });
  expect(headers["content-type"]).toMatch(/^text\/plain; version=0\.0\.4/);
});

proves("the page shows the state", async () => {
  const { status, headers } = await send(`${sidecar.origin}/`, { method: "GET" });
  expect([status, headers["content-type"]]).toEqual([200, "text/html; charset=utf-8"]);
  await crash(sidecar);
  await client.callTool("echo", { text: "CONTENT-shown" });
  using page = await PageClient.open(sidecar);
  const seen = await page.until(({ requests }) => requests.some(({ tool }) => tool === "echo"));
  expect(seen.state).toMatchObject({ state: "ready", endpointPath: "/mcp" });
  expect(seen.generations[0]).toMatchObject({ number: 1, exit: { signal: "SIGKILL" } });
  expect(seen.logLines.map((line) => (JSON.parse(line) as { msg: string }).msg)).toContain("mcp server exited");
  expect(JSON.stringify(seen)).not.toContain("CONTENT");
});

proves("no other page reads or frames the page", async () => {
  const { headers } = await send(`${sidecar.origin}/`, { method: "GET" });
  expect(headers["content-security-policy"]).toContain("frame-ancestors 'none'");
  expect([headers["x-frame-options"], headers["cross-origin-resource-policy"]]).toEqual(["DENY", "same-origin"]);
  const attacker = { Host: "attacker.example" };
  for (const foreign of [
    ...["https://app.example", "http://localhost:3000", "null"].map((Origin) => ({ Origin })),
    ...["cross-site", "same-site"].map((site) => ({ "Sec-Fetch-Site": site })),
    attacker,
    { ...attacker, Origin: "http://attacker.example" },
  ]) {
    using page = await PageClient.open(sidecar, foreign);
    expect([foreign, page.status, page.headers["access-control-allow-origin"]]).toEqual([foreign, 403, undefined]);
  }
  for (const own of [{}, { Origin: sidecar.origin }, { "Sec-Fetch-Site": "same-origin" }]) {
    using page = await PageClient.open(sidecar, own);
    expect([own, page.status]).toEqual([own, 200]);
  }
  // Without the header of the page, as a form or a script of another page would ask.
  expect((await send(`${sidecar.origin}/page/events`, { method: "GET" })).status).toBe(403);
});

proves("stderr of the server is in the log", async () => {
  await client.toolText("stderr", { text: "a line of stderr" });
  expect(await sidecar.waitForLog("a line of stderr")).toMatchObject({
    level: "info",
    stream: "stderr",
    childPid: sidecar.childPid,
    generation: (await readStatus(sidecar)).generation,
  });
});

proves("failed requests are logged without contents", async () => {
  await client.callTool("raw_line", FAILING, "CONTENT-id");
  await client.callTool("echo", { text: "CONTENT-argument" });
  const line = await sidecar.waitForLog("request ended", ({ tool }) => tool === "raw_line");
  expect(line).toMatchObject({ level: "info", ending: "errors", method: "tools/call", httpStatus: 200, principal: "127.0.0.1" });
  expect(line).toMatchObject({ serverMs: expect.any(Number) as number, requestBytes: expect.any(Number) as number });
  const headers = { ...JSON_HEADERS, Authorization: "Bearer CONTENT-token-0123456789" };
  expect((await send(`${sidecar.url}?CONTENT-url`, { headers, body: '{"CONTENT-body"' })).status).toBe(400);
  expect(await sidecar.waitForLog("request rejected", ({ httpStatus }) => httpStatus === 400)).toMatchObject({ level: "info" });
  for (const secret of ["CONTENT", client.sessionId]) expect(sidecar.transcript()).not.toContain(secret);
});

proves("no part of a message is logged", async () => {
  await client.toolText("noise", { line: '{"jsonrpc":"2.0","method":"x/CONTENT"' });
  await client.toolText("noise", { line: '{"jsonrpc":"2.0","id":123456,"result":{"text":"CONTENT-unknown"}}' });
  await client.toolText("noise", { line: "plain text of a server" });
  await sidecar.waitForLog("answer dropped: no such request");
  await sidecar.waitForLog("stdout line skipped: not json-rpc", ({ line }) => line === "plain text of a server");
  expect(sidecar.transcript()).not.toContain("CONTENT");
});

proves("the context of a trace reaches the server", async () => {
  const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
  const headers = { traceparent, tracestate: "vendor=1", baggage: "user=2" };
  const { result } = await client.request("x-test/traced", {}, 2, { headers });
  expect(result).toMatchObject({ params: { _meta: headers } });
});

proves("the log has one JSON object a line", async () => {
  await client.toolText("stderr", { text: 'quotes " and \\ and \u0001 and é' });
  await client.toolText("noise", { line: "not json" });
  await sidecar.waitForLog("stdout line skipped: not json-rpc", ({ line }) => line === "not json");
  expect(sidecar.logLines.length).toBeGreaterThan(3);
  for (const line of sidecar.logLines) {
    expect(line).toMatchObject({
      level: expect.stringMatching(/^(?:error|warn|info)$/) as string,
      time: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/) as string,
      msg: expect.stringMatching(/./) as string,
      pid: sidecar.process.pid,
    });
  }
  expect(sidecar.stderr).toBe("");
});

proves("a log that is not read delays no message", async () => {
  sidecar.process.stdout?.pause();
  expect(await client.toolText("stderr", FLOOD)).toBe("written");
  expect(await client.toolText("echo", { text: "still here" })).toBe("still here");
  sidecar.process.stdout?.resume();
  expect(await sidecar.waitForLog(DROPPED)).toMatchObject({ level: "warn" });
  await client.toolText("stderr", { text: "logged again" });
  await sidecar.waitForLog("logged again");
  const shown = sidecar.logLines.filter(({ msg }) => msg === "e".repeat(FLOOD.length)).length;
  const dropped = sidecar.logLines.filter(({ msg }) => msg === DROPPED).reduce((sum, { count }) => sum + Number(count), 0);
  expect(dropped).toBeGreaterThan(0);
  expect(shown + dropped).toBe(FLOOD.count);
});

proves("a flood of requests cannot fill the log", async () => {
  const before = sidecar.logLines.filter(({ msg }) => msg === "request rejected").length;
  for (let rounds = 0; rounds < 10; rounds++) await Promise.all(Array.from({ length: 20 }, () => client.post("{")));
  await sidecar.stop();
  const logged = sidecar.logLines.filter(({ msg }) => msg === "request rejected").length - before;
  const suppressed = sidecar.logLines.filter(({ msg }) => msg === "request lines suppressed: too many");
  // 60, and one for each second meanwhile.
  expect(logged).toBeLessThan(120);
  expect(logged + suppressed.reduce((sum, { count }) => sum + Number(count), 0)).toBe(200);
});
