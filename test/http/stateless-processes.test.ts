import { describe, expect, it } from "vitest";
import { processEnd } from "../support/process-end.ts";
import { readWhere } from "../support/in-flight.ts";
import { LaneClient } from "../support/lane-client.ts";
import { ASKABLE } from "../support/mcp-client.ts";
import { InteropClient } from "../support/sdk-clients.ts";
import { HttpBench } from "../support/http-bench.ts";
import type { LogLine, RunningSidecar } from "../support/running-sidecar.ts";
import { isAlive } from "../support/sidecar.ts";
import { readStatus, type Status } from "../support/status.ts";

/** Returns the processes that were started so far, by the name of their lane. */
function started(sidecar: RunningSidecar): unknown[] {
  return sidecar.logLines.filter(({ msg }) => msg === "mcp server started").map((line: LogLine) => line["lane"] ?? "shared");
}

async function serverEra(sidecar: RunningSidecar): Promise<unknown> {
  return ((await readStatus(sidecar)) as Status & { readonly stateless?: { readonly serverEra: string } }).stateless?.serverEra;
}

describe("the processes of a server of sessions", () => {
  it("clients with sessions start no second process, nor do rejected requests", async () => {
    await using sidecar = await HttpBench.start();
    const client = await LaneClient.connectShared(sidecar);
    await client.request("tools/list");
    await client.toolText("echo", { text: "x" });
    const modern = sidecar.modernClient();
    await modern.request("ping");
    await modern.callTool("echo", {}, { headers: { "Mcp-Name": "other" } });
    await modern.notify("notifications/x-vendor");
    await modern.post([]);
    expect(await serverEra(sidecar)).toBe("unknown");
    expect(await client.toolText("seen")).not.toContain("server/discover");
    expect(started(sidecar)).toEqual(["shared"]);
  });

  it("the first request without a session starts one more, which ends with the verdict", async () => {
    await using sidecar = await HttpBench.start();
    const { childPid } = sidecar;
    const modern = sidecar.modernClient();
    const results = await Promise.all([modern.callTool("where"), modern.request("server/discover"), modern.callTool("where")]);
    expect(results.map(({ status }) => status)).toEqual([200, 200, 200]);
    expect(await sidecar.waitForLog("server era found")).toMatchObject({ mode: "legacy" });
    expect([started(sidecar), await serverEra(sidecar)]).toEqual([["shared", "modern"], "legacy"]);
    await processEnd(Number((await sidecar.waitForLog("mcp server started", (line) => line["lane"] === "modern"))["childPid"]));
    for (let round = 0; round < 3; round++) {
      expect(JSON.parse(await modern.toolText("where"))).toMatchObject({ pid: childPid });
    }
    expect(isAlive(childPid)).toBe(true);
    expect(started(sidecar)).toEqual(["shared", "modern"]);
  });

  it("clients with and without a session share a process", async () => {
    await using sidecar = await HttpBench.start();
    const session = await sidecar.client();
    expect(JSON.parse(await sidecar.modernClient().toolText("where"))).toEqual(await readWhere(session));
  });

  it.each([
    ["CHILD_ERA=legacy", ["--child-era", "legacy"]],
    ["ISOLATION=shared", ["--isolation", "shared"]],
  ])("with %s, no request starts a second process", async (_what, flags) => {
    await using sidecar = await HttpBench.start({ flags });
    const modern = sidecar.modernClient();
    expect(await modern.toolText("seen")).not.toContain("server/discover");
    expect([started(sidecar), await serverEra(sidecar)]).toEqual([["shared"], "legacy"]);
  });

  it.each(["exits-on-discover", "ignores-discover"])("a server that %s serves clients without a session", async (mode) => {
    await using sidecar = await HttpBench.start({ mode, flags: ["--ready-timeout-ms", "3000"] });
    const { childPid } = sidecar;
    const where = JSON.parse(await sidecar.modernClient().toolText("where")) as object;
    expect([where, await serverEra(sidecar)]).toEqual([expect.objectContaining({ pid: childPid }), "legacy"]);
    expect(isAlive(childPid)).toBe(true);
  });
});

describe("a client that can answer questions", () => {
  it.each([{ elicitation: {} }, { sampling: {} }, ASKABLE])("%j gets the discovery of a process that may ask", async (capabilities) => {
    await using sidecar = await HttpBench.start();
    const { result } = await sidecar.modernClient({ capabilities }).request("server/discover");
    expect(result).toMatchObject({ resultType: "complete", supportedVersions: ["2026-07-28"], capabilities: { tools: {} } });
    expect(started(sidecar)).toEqual(["shared", "modern", "asking-1"]);
  });

  it("with ISOLATION=shared it gets that of the only process", async () => {
    await using sidecar = await HttpBench.start({ flags: ["--isolation", "shared"] });
    expect((await sidecar.modernClient({ capabilities: ASKABLE }).request("server/discover")).status).toBe(200);
    expect(started(sidecar)).toEqual(["shared"]);
  });

  it("the SDK's client answers the questions of its calls without a session", async () => {
    await using sidecar = await HttpBench.start();
    await using client = await InteropClient.connect("v2", sidecar.url, {
      negotiation: "auto",
      answer: () => ({ action: "accept", content: { name: "Ann" } }),
    });
    expect([client.protocolVersion, client.sessionId]).toEqual(["2026-07-28", undefined]);
    const params = { mode: "form", message: "Your name?", requestedSchema: { type: "object", properties: { name: { type: "string" } } } };
    expect(await client.toolText("ask", { method: "elicitation/create", params })).toContain("Ann");
    expect(started(sidecar)).toEqual(["shared", "modern", "asking-1"]);
  });
});

describe("the SDK's client with automatic negotiation", () => {
  it("without capabilities it is served by the shared process, without a session", async () => {
    await using sidecar = await HttpBench.start();
    const { childPid } = sidecar;
    await using client = await InteropClient.connect("v2", sidecar.url, { negotiation: "auto", lane: "shared" });
    expect([client.protocolVersion, client.sessionId]).toEqual(["2026-07-28", undefined]);
    expect(JSON.parse(await client.toolText("where"))).toMatchObject({ pid: childPid });
    expect((await readStatus(sidecar)).sessions).toBe(0);
  });

  it.each([
    ["MODERN=off", ["--modern", "off"]],
    ["ISOLATION=session", ["--isolation", "session"]],
  ])("with %s it begins a session", async (_what, flags) => {
    await using sidecar = await HttpBench.start({ flags });
    await using client = await InteropClient.connect("v2", sidecar.url, { negotiation: "auto", lane: "shared" });
    expect([client.protocolVersion, typeof client.sessionId]).toEqual(["2025-11-25", "string"]);
    expect(await client.toolText("echo", { text: "hi" })).toBe("hi");
  });

  it("the headers of arguments that it sends are those that the sidecar expects", async () => {
    await using sidecar = await HttpBench.start();
    await using client = await InteropClient.connect("v2", sidecar.url, { negotiation: "auto", lane: "shared" });
    await client.listTools();
    const args = { region: "größe", count: 7, urgent: false, options: { tier: " gold " }, other: "x" };
    expect(JSON.parse(await client.toolText("with_headers", args))).toEqual(args);
  });
});
