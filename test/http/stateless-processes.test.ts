import { describe, expect, it } from "vitest";
import { processEnd } from "../support/process-end.ts";
import { LaneClient } from "../support/lane-client.ts";
import { InteropClient } from "../support/sdk-clients.ts";
import { HttpBench } from "../support/http-bench.ts";
import type { LogLine, RunningSidecar } from "../support/running-sidecar.ts";
import { isAlive } from "../support/sidecar.ts";
import { type Status, readStatus } from "../support/status.ts";

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
});

describe("the SDK's client with automatic negotiation", () => {
  it("the headers of arguments that it sends are those that the sidecar expects", async () => {
    await using sidecar = await HttpBench.start();
    await using client = await InteropClient.connect("v2", sidecar.url, { negotiation: "auto", lane: "shared" });
    await client.listTools();
    const args = { region: "größe", count: 7, urgent: false, options: { tier: " gold " }, other: "x" };
    expect(JSON.parse(await client.toolText("with_headers", args))).toEqual(args);
  });
});
