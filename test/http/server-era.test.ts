import { describe, expect, it } from "vitest";
import { HttpBench } from "../support/http-bench.ts";
import { LaneClient } from "../support/lane-client.ts";
import { processEnd } from "../support/process-end.ts";
import type { LogLine, RunningSidecar, StartOptions } from "../support/running-sidecar.ts";
import { InteropClient } from "../support/sdk-clients.ts";
import { isAlive } from "../support/sidecar.ts";
import { readStatus, type Status } from "../support/status.ts";

/** In the fixture, the instructions name the era in which the process is asked. */
const INSTRUCTIONS = { legacy: "1.0", modern: "modern 1.0" };
type Era = keyof typeof INSTRUCTIONS;

function start(mode: string, childEra: string, options: StartOptions = {}): Promise<RunningSidecar> {
  return HttpBench.start({ ...options, mode, flags: ["--child-era", childEra, ...(options.flags ?? [])] });
}

function startedServers(sidecar: RunningSidecar): number {
  return sidecar.logLines.filter(({ msg }) => msg === "mcp server started").length;
}

async function expectServed(sidecar: RunningSidecar, era: Era): Promise<void> {
  const client = sidecar.modernClient();
  const { status, result } = await client.request("server/discover");
  expect({ status, result }).toMatchObject({ status: 200, result: { supportedVersions: ["2026-07-28"], instructions: INSTRUCTIONS[era] } });
  const called = await client.callTool("echo", { text: "served" });
  expect(called.result).toMatchObject({ resultType: "complete", content: [{ text: "served" }] });
  expect((await readStatus(sidecar)).stateless?.serverEra).toBe(era);
}

async function expectSession(sidecar: RunningSidecar): Promise<void> {
  expect(await (await sidecar.client()).toolText("echo", { text: "in a session" })).toBe("in a session");
}

describe("requests without a session", () => {
  it.each([
    { mode: "normal", childEra: "auto", era: "legacy", servers: 2 },
    { mode: "normal", childEra: "legacy", era: "legacy", servers: 1 },
    { mode: "dual", childEra: "auto", era: "modern", servers: 2 },
    { mode: "dual", childEra: "legacy", era: "legacy", servers: 1 },
    { mode: "pinned-by-discover", childEra: "auto", era: "modern", servers: 2 },
    { mode: "pinned-by-discover", childEra: "legacy", era: "legacy", servers: 1 },
    { mode: "exits-on-discover", childEra: "auto", era: "legacy", servers: 2 },
    { mode: "exits-on-discover", childEra: "legacy", era: "legacy", servers: 1 },
    { mode: "ignores-discover", childEra: "legacy", era: "legacy", servers: 1 },
  ] as const)("a server in mode $mode is served with CHILD_ERA=$childEra, beside sessions", async ({ mode, childEra, era, servers }) => {
    await using sidecar = await start(mode, childEra);
    await expectServed(sidecar, era);
    await expectSession(sidecar);
    await expectServed(sidecar, era);
    await sidecar.stop();
    expect(startedServers(sidecar)).toBe(servers);
  });

  it.each([
    ["--modern", "off"],
    ["--child-era", "legacy"],
    ["--isolation", "session"],
  ])("the reason shows the settings if a server without sessions gets initialize only, because of %s %s", async (...flags) => {
    await using sidecar = await HttpBench.start({ mode: "modern-only", flags, untilReady: false });
    const { reason } = await sidecar.waitForLog("mcp server exited", ({ kind }) => kind === "handshake-refused");
    expect(reason).toContain("MODERN=on");
  });

  it("the reason shows the setting if a server with sessions gets server/discover only", async () => {
    await using sidecar = await start("normal", "modern", { untilReady: false });
    const { reason } = await sidecar.waitForLog("mcp server exited", ({ kind }) => kind === "handshake-refused");
    expect(reason).toMatch(/^the MCP server answered server\/discover with an error.*CHILD_ERA=auto or legacy$/);
  });

  it("the end of a process that shows the era is logged as information, and not counted", async () => {
    await using sidecar = await start("exits-on-discover", "auto");
    await expectServed(sidecar, "legacy");
    expect(await sidecar.waitForLog("mcp server exited", ({ lane }) => lane === "modern")).toMatchObject({ level: "info" });
    expect((await readStatus(sidecar)).counters).toMatchObject({ exits: {} });
  });

  it.each([
    { mode: "modern-only", childEra: "auto" },
    { mode: "modern-only", childEra: "modern" },
    { mode: "dual", childEra: "modern" },
    { mode: "pinned-by-discover", childEra: "modern" },
  ])("a server in mode $mode is served with CHILD_ERA=$childEra, in sessions too", async ({ mode, childEra }) => {
    await using sidecar = await start(mode, childEra);
    await expectServed(sidecar, "modern");
    await expectSession(sidecar);
    await sidecar.stop();
    expect(startedServers(sidecar)).toBe(1);
    expect(sidecar.logLines.filter(({ msg }) => msg === "server era found")).toMatchObject([{ mode: "modern" }]);
  });

  it.each([
    { mode: "dual", era: "modern" },
    { mode: "exits-on-discover", era: "legacy" },
  ] as const)("many first requests cause one probe of a server in mode $mode", async ({ mode, era }) => {
    await using sidecar = await start(mode, "auto");
    const client = sidecar.modernClient();
    const replies = await Promise.all(Array.from({ length: 50 }, (_, index) => client.toolText("echo", { text: `${index}` })));
    expect(replies).toEqual(replies.map((_, index) => `${index}`));
    await expectServed(sidecar, era);
    await sidecar.stop();
    expect(startedServers(sidecar)).toBe(2);
    expect(sidecar.logLines.filter(({ msg }) => msg === "server era found")).toMatchObject([{ mode: era }]);
  });

  it.each([
    ["normal", "legacy"],
    ["dual", "legacy"],
    ["pinned-by-discover", "legacy"],
    ["ignores-discover", "legacy"],
    ["modern-only", "modern"],
  ] as const)("a server in mode %s has a single process, of the era %s, with ISOLATION=shared", async (mode, era) => {
    await using sidecar = await start(mode, "auto", { flags: ["--isolation", "shared"] });
    await expectServed(sidecar, era);
    await (await sidecar.client({ capabilities: { sampling: {} } })).toolText("where");
    await expectServed(sidecar, era);
    await sidecar.stop();
    expect(startedServers(sidecar)).toBe(1);
  });

  it("the second process takes no place of MAX_PRIVATE_SERVERS", async () => {
    await using sidecar = await start("dual", "auto", { flags: ["--max-private-servers", "1"] });
    await expectServed(sidecar, "modern");
    await (await sidecar.client({ capabilities: { sampling: {} } })).toolText("where");
    expect((await readStatus(sidecar)).lanes.private.servers).toBe(1);
    await expectServed(sidecar, "modern");
  });

  it("a process of one era never gets a message of the other", async () => {
    await using sidecar = await start("dual", "auto");
    await expectServed(sidecar, "modern");
    const session = await sidecar.client();
    const ofSession = JSON.parse(await session.toolText("seen")) as string[];
    expect(ofSession).toEqual(["initialize", "notifications/initialized", "tools/call"]);
    const ofRequests = JSON.parse(await sidecar.modernClient().toolText("seen")) as string[];
    expect(ofRequests.filter((method) => method !== "tools/call")).toEqual(["server/discover", "subscriptions/listen", "tools/list"]);
  });
});

// These tests mostly wait.
describe.concurrent("a server that never answers a discovery", () => {
  it("the era of a server that never answers a discovery is found in a short time", async () => {
    const readyTimeoutMs = 600_000;
    await using sidecar = await start("ignores-discover", "auto", { flags: ["--ready-timeout-ms", String(readyTimeoutMs)] });
    await expectServed(sidecar, "legacy");
    const { reason } = await sidecar.waitForLog("server era found");
    const [, limitMs] = /^no response to server\/discover within (\d+) ms$/.exec(String(reason)) ?? [];
    expect(Number(limitMs)).toBeLessThan(readyTimeoutMs / 2);
    await expectSession(sidecar);
    await sidecar.stop();
    expect(startedServers(sidecar)).toBe(2);
  });

  it("READY_TIMEOUT_MS limits the time for the discovery too", async () => {
    await using sidecar = await start("ignores-discover", "auto", { flags: ["--ready-timeout-ms", "3000"] });
    await expectServed(sidecar, "legacy");
    const { reason } = await sidecar.waitForLog("server era found");
    expect(reason).toBe("no response to server/discover within 3000 ms");
  });
});

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
