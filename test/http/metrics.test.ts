import { describe, expect, it } from "vitest";
import { METRICS } from "../../src/http/metrics.ts";
import { QUICK_RESTART, crash } from "../support/fixture-server.ts";
import { type HttpReply, send } from "../support/http-client.ts";
import { Series } from "../support/series.ts";
import { readStatus, waitForGeneration } from "../support/status.ts";
import { HttpBench } from "../support/http-bench.ts";
import { EXAMPLE } from "../support/sidecar.ts";

const OPERATION = "mcp_server_operation_duration_seconds_count";

function get(origin: string, path: string, headers: Readonly<Record<string, string>> = {}): Promise<HttpReply> {
  return send(`${origin}${path}`, { method: "GET", headers });
}

describe("/metrics", () => {
  it("has the duration of each kind of request, by method, tool, error and revision", async () => {
    await using sidecar = await HttpBench.start({ command: [process.execPath, EXAMPLE] });
    const client = await sidecar.client();
    await client.request("tools/call", { name: "echo", arguments: { text: "before the list" } });
    await client.request("tools/list");
    for (const text of ["a", "b"]) await client.request("tools/call", { name: "echo", arguments: { text } });
    await client.request("tools/call", { name: "no_such_tool" });
    await client.request("x/unknown");
    await sidecar.modernClient().callTool("echo", { text: "c" });
    const series = await Series.read(sidecar);
    const ofTool = (name: string, version = "2025-11-25"): number =>
      series.sum(OPERATION, {
        mcp_method_name: "tools/call",
        gen_ai_tool_name: name,
        mcp_protocol_version: version,
        error_type: undefined,
      });
    expect([ofTool("echo"), ofTool("other"), ofTool("echo", "2026-07-28")]).toEqual([2, 1, 1]);
    expect(series.sum(OPERATION, { gen_ai_tool_name: "other", error_type: "tool_error" })).toBe(1);
    expect(series.sum(OPERATION, { mcp_method_name: "_OTHER", error_type: "-32601" })).toBe(1);
    expect(series.sum(OPERATION, { network_transport: "tcp" })).toBe(series.sum(OPERATION));
    expect(series.sum("mcp_server_operation_duration_seconds_bucket", { le: "+Inf" })).toBe(series.sum(OPERATION));
  });

  it("agrees with /status", async () => {
    await using sidecar = await HttpBench.start({ flags: QUICK_RESTART });
    const client = await sidecar.client();
    await client.request("tools/list");
    await crash(sidecar);
    await waitForGeneration(sidecar, 2);
    const status = await readStatus(sidecar);
    const series = await Series.read(sidecar);
    expect(series.sum("claw_mcp_stdio_server_exits_total", { kind: "signal" })).toBe(1);
    expect(series.sum("claw_mcp_stdio_server_restarts_total")).toBe(1);
    expect(series.sum("claw_mcp_stdio_server_generation")).toBe(2);
    expect(series.sum("claw_mcp_stdio_server_ready")).toBe(1);
    expect(series.sum("claw_mcp_stdio_server_ready_time_seconds") * 1000).toBeLessThanOrEqual(Date.now());
    expect(series.sum("claw_mcp_stdio_sessions")).toBe(status.sessions);
    const { requests, answers } = status.counters as unknown as Record<string, Record<string, number>>;
    expect(series.sum("claw_mcp_stdio_requests_accepted_total")).toBe(requests?.["accepted"]);
    expect(series.sum("claw_mcp_stdio_requests_ended_total", { ending: "results" })).toBe(answers?.["results"]);
  });

  it("has each metric of the documentation, with no other labels than these", async () => {
    await using sidecar = await HttpBench.start();
    const client = await sidecar.client();
    await client.request("tools/call", { name: "echo", arguments: { text: "a" } });
    await client.end();
    const series = await Series.read(sidecar);
    const histogram = /_(?:bucket|sum|count)$/;
    for (const [name, { labels, type }] of Object.entries(METRICS)) {
      const shown = series.labelsOf(type === "histogram" ? `${name}_bucket` : name);
      expect.soft({ name, unknown: shown?.difference(new Set([...labels, "le"])) }).toEqual({ name, unknown: new Set() });
    }
    const documented = new Set(Object.keys(METRICS));
    const own = [...series.names].map((name) => name.replace(histogram, "")).filter((name) => /^(?:claw_|mcp_)/.test(name));
    expect(own.filter((name) => !documented.has(name))).toEqual([]);
  });

  it("has the duration of a session after its end", async () => {
    await using sidecar = await HttpBench.start();
    await (await sidecar.client()).end();
    const series = await Series.read(sidecar);
    expect(series.sum("mcp_server_session_duration_seconds_count", { mcp_protocol_version: "2025-11-25" })).toBe(1);
  });

  it("a request that the sidecar fails has the code of the error", async () => {
    await using sidecar = await HttpBench.start({ flags: ["--tool-timeouts-ms", "hang=300"] });
    await (await sidecar.client()).request("tools/call", { name: "hang", arguments: {} });
    const series = await Series.read(sidecar);
    expect(series.sum(OPERATION, { error_type: "REQUEST_TIMEOUT" })).toBe(1);
    expect(series.sum("claw_mcp_stdio_requests_ended_total", { ending: "REQUEST_TIMEOUT" })).toBe(1);
  });

  it("an error of the server has its code, or _OTHER if that is not known", async () => {
    await using sidecar = await HttpBench.start();
    const client = await sidecar.client();
    for (const code of [-32602, -32602, 12345]) {
      const line = `{"jsonrpc":"2.0","id":$ID,"error":{"code":${code},"message":"\\"code\\":1"}}`;
      await client.request("tools/call", { name: "raw_line", arguments: { line } });
    }
    const series = await Series.read(sidecar);
    expect(["-32602", "_OTHER"].map((type) => series.sum(OPERATION, { error_type: type }))).toEqual([2, 1]);
  });

  it("names that clients send cannot add series without a limit", async () => {
    await using sidecar = await HttpBench.start();
    const client = await sidecar.client();
    const before = (await Series.read(sidecar)).size;
    const hostile = ['"', "\n", "\\", "{}", "é".repeat(500), "__proto__"];
    for (const name of [...hostile, ...Array.from({ length: 1000 }, (_, index) => `tool-${index}`)])
      await client.request("tools/call", { name });
    for (const name of hostile) await client.request(`x/${name}`);
    for (let index = 0; index < 100; index++) await sidecar.modernClient({ protocolVersion: `2099-01-${index}` }).request("tools/list");
    const { size } = await Series.read(sidecar);
    // A histogram has 17 series.
    expect(size - before).toBeLessThan(17 * 8);
  });

  it("does not exist with METRICS=off", async () => {
    await using sidecar = await HttpBench.start({ flags: ["--metrics", "off"] });
    expect((await get(sidecar.origin, "/metrics")).status).toBe(404);
  });
});
