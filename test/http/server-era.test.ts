import { describe, expect, it } from "vitest";
import { HttpBench } from "../support/http-bench.ts";
import { LaneClient } from "../support/lane-client.ts";
import { processEnd } from "../support/process-end.ts";
import type { LogLine, RunningSidecar, StartOptions } from "../support/running-sidecar.ts";
import { InteropClient } from "../support/sdk-clients.ts";
import { isAlive } from "../support/sidecar.ts";
import { readStatus, type Status } from "../support/status.ts";
import { Gate, QUICK_RESTART, crashProcess, offer, readWhere } from "../support/fixture-server.ts";
import { errorReply, readError } from "../support/error-reply.ts";
import { noticeOf, waitUntilFree } from "../support/listens.ts";
import { ASKABLE, initializeRequest } from "../support/mcp-client.ts";
import type { ModernClient } from "../support/modern-client.ts";
import { signalServer } from "../support/in-process-server.ts";

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

describe("a server of another era than before", () => {
  /** Silence lasts for READY_TIMEOUT_MS, and once more in a second process. */
  const FLAGS = { normal: [], "exits-on-discover": [], "ignores-discover": ["--ready-timeout-ms", "8000", "--isolation", "shared"] };
  const FILTER = { toolsListChanged: true };
  const INITIALIZE_RESULT = offer({ tools: { listChanged: true } }, { instructions: "1.0" });

  function startBehind(mode: string, nextMode: string, gate: Gate, flags: readonly string[] = []): Promise<RunningSidecar> {
    const env = { ...gate.env, FIXTURE_NEXT_MODE: nextMode, FIXTURE_INITIALIZE_RESULT: INITIALIZE_RESULT };
    return HttpBench.start({ mode, flags: [...QUICK_RESTART, ...flags], env });
  }

  async function change(sidecar: RunningSidecar, client: ModernClient, gate: Gate): Promise<void> {
    const { pid } = await readWhere(client);
    await gate.open();
    await crashProcess(sidecar, pid);
  }

  async function waitForEra(sidecar: RunningSidecar, client: ModernClient, instructions: string): Promise<void> {
    for (;;) {
      const { status, error, result } = await client.request("server/discover");
      expect(["200", "503 UPSTREAM_NOT_READY"]).toContain([status, error?.data?.["code"]].join(" ").trim());
      if (result?.["instructions"] === instructions) break;
    }
    expect(await client.toolText("echo", { text: "served" })).toBe("served");
    expect((await readStatus(sidecar)).stateless?.serverEra).toBe(instructions === "1.0" ? "legacy" : "modern");
  }

  async function countAccepted(sidecar: RunningSidecar): Promise<number> {
    const { requests } = (await readStatus(sidecar)).counters;
    return (requests as { readonly accepted: number }).accepted;
  }

  it.each(["normal", "exits-on-discover", "ignores-discover"] as const)(
    "a server without sessions that becomes one in mode %s is found out",
    async (nextMode) => {
      await using gate = await Gate.create();
      await using sidecar = await startBehind("modern-only", nextMode, gate, FLAGS[nextMode]);
      const client = sidecar.modernClient();
      const listen = await client.listen(FILTER, { id: "mine" });
      await change(sidecar, client, gate);
      expect((await listen.rest()).at(-1)).toMatchObject({ id: "mine", result: { resultType: "complete" } });
      await waitForEra(sidecar, client, "1.0");
      expect(await (await sidecar.client()).toolText("echo", { text: "in a session" })).toBe("in a session");
      await using again = await client.listen(FILTER);
      expect(again.accepted).toEqual(FILTER);
      await again.close();
      while ((await readStatus(sidecar)).stateless?.subscriptions !== 0);
    },
  );

  it("a server with sessions that becomes one without is found out", async () => {
    await using gate = await Gate.create();
    await using sidecar = await startBehind("normal", "modern-only", gate);
    const client = sidecar.modernClient();
    const listen = await client.listen(FILTER, { id: "mine" });
    const session = await sidecar.client();
    await change(sidecar, client, gate);
    expect((await listen.rest()).at(-1)).toMatchObject({ id: "mine", result: { resultType: "complete" } });
    await waitForEra(sidecar, client, "modern 1.0");
    for (const each of [session, await sidecar.client()]) {
      expect(await each.toolText("echo", { text: "in a session" })).toBe("in a session");
      await each.end();
    }
    await using again = await client.listen(FILTER);
    await client.callTool("change_list", { list: "tools" });
    expect((await again.next()).method).toBe("notifications/tools/list_changed");
    await again.close();
    await waitUntilFree(sidecar);
  });

  it.each(["normal", "exits-on-discover"])(
    "the second process of a server of both eras, restarted in mode %s, is found out",
    async (nextMode) => {
      await using gate = await Gate.create();
      await using sidecar = await startBehind("dual", nextMode, gate);
      const client = sidecar.modernClient();
      const listen = await client.listen(FILTER, { id: "mine" });
      const session = await sidecar.client();
      await change(sidecar, client, gate);
      expect((await listen.rest()).at(-1)).toMatchObject({ id: "mine", result: { resultType: "complete" } });
      await waitForEra(sidecar, client, "1.0");
      // The shared process has not changed.
      expect(await session.toolText("echo", { text: "same session" })).toBe("same session");
      await using again = await client.listen(FILTER);
      expect(again.accepted).toEqual(FILTER);
    },
  );

  it("the second process of a server of both eras that cannot start for a while is asked again", async () => {
    await using gate = await Gate.create();
    await using sidecar = await startBehind("dual", "exits-on-discover", gate);
    const client = sidecar.modernClient();
    await using kept = await client.listen(FILTER);
    await change(sidecar, client, gate);
    expect(await kept.rest()).toHaveLength(1);
    await waitForEra(sidecar, client, "1.0");
    await gate.close();
    await waitForEra(sidecar, client, "modern 1.0");
  });

  it("the calls that wait for a second process that is lost for good are told to try again", async () => {
    await using gate = await Gate.create();
    await using sidecar = await startBehind("dual", "exits-on-discover", gate, [
      "--restart-backoff-ms",
      "3000",
      "--restart-max-ms",
      "3000",
    ]);
    const client = sidecar.modernClient();
    await change(sidecar, client, gate);
    const { status, error } = await client.callTool("echo", { text: "waits" });
    expect({ status, data: error?.data }).toMatchObject({ status: 503, data: { code: "UPSTREAM_NOT_READY", sent: false } });
  });

  it("RESTART_LIMIT of the second process ends its subscriptions, and the next request starts it again", async () => {
    await using gate = await Gate.create();
    await using sidecar = await startBehind("dual", "dual", gate, ["--restart-limit", "1", "--restart-max-ms", "60000"]);
    const client = sidecar.modernClient();
    const listen = await client.listen(FILTER, { id: "mine" });
    await crashProcess(sidecar, (await readWhere(client)).pid);
    await sidecar.waitForLog("mcp server ready", ({ lane, generation }) => lane === "modern" && generation === 2);
    signalServer((await readWhere(client)).pid, "SIGKILL");
    expect(noticeOf(await listen.next())[0]).toBe("notifications/tools/list_changed");
    expect(await listen.rest()).toMatchObject([{ id: "mine", result: { resultType: "complete" } }]);
    await waitForEra(sidecar, client, "modern 1.0");
    await waitUntilFree(sidecar);
  });

  it("a call that waits for a server of the other era fails without being sent", async () => {
    await using gate = await Gate.create();
    await using sidecar = await startBehind("normal", "modern-only", gate, ["--restart-backoff-ms", "4000", "--restart-max-ms", "4000"]);
    const client = sidecar.modernClient();
    await change(sidecar, client, gate);
    const { error } = await client.callTool("echo", { text: "never sent" });
    expect(error?.data).toMatchObject({ code: "UPSTREAM_NOT_READY", sent: false });
    expect(error?.message).toContain("another revision");
    await waitForEra(sidecar, client, "modern 1.0");
  });

  it("the session of a private server that comes back without sessions ends, and its client can open another one", async () => {
    await using gate = await Gate.create();
    await using sidecar = await startBehind("normal", "modern-only", gate);
    const asked = await LaneClient.connect(sidecar);
    await change(sidecar, sidecar.modernClient(), gate);
    await waitForEra(sidecar, sidecar.modernClient(), "modern 1.0");
    await crashProcess(sidecar, asked.childPid);
    const ended = await sidecar.waitForLog("sessions ended");
    expect(ended).toMatchObject({ lane: "private-1", reason: "the mcp server no longer offers the protocol revision of this session" });
    const reply = readError(await asked.post({ jsonrpc: "2.0", id: 2, method: "ping" }));
    expect(reply).toStrictEqual(errorReply(404, -32001, "SESSION_NOT_FOUND", { id: 2 }));
    expect(await (await LaneClient.connect(sidecar)).toolText("echo", { text: "in another session" })).toBe("in another session");
    await sidecar.waitForLog("mcp server ended", ({ lane }) => lane === "private-1");
    expect((await readStatus(sidecar)).sessions).toBe(1);
  });

  it("a client whose private server has no sessions, unlike the shared one, is told to try again until that has restarted", async () => {
    await using gate = await Gate.create();
    await using sidecar = await startBehind("normal", "modern-only", gate);
    const { pid } = await readWhere(await sidecar.client());
    await gate.open();
    const refused = readError(await new LaneClient(sidecar.url).post(initializeRequest(ASKABLE)));
    expect(refused).toMatchObject({ status: 503, body: { error: { data: { code: "UPSTREAM_NOT_READY", retrySafe: true } } } });
    expect((await readStatus(sidecar)).counters).toMatchObject({ answers: { failures: { UPSTREAM_NOT_READY: 1 } } });
    await sidecar.waitForLog("shared mcp server outdated");
    await crashProcess(sidecar, pid);
    await sidecar.waitForLog("mcp server ready", ({ generation }) => generation === 2);
    expect(await (await LaneClient.connect(sidecar)).toolText("echo", { text: "in a session" })).toBe("in a session");
  });

  it("a client whose private server has no sessions waits for a shared server that restarts", async () => {
    await using gate = await Gate.create();
    await using sidecar = await startBehind("normal", "modern-only", gate, ["--restart-backoff-ms", "2000", "--restart-max-ms", "2000"]);
    const { pid } = await readWhere(await sidecar.client());
    await gate.open();
    signalServer(pid, "SIGKILL");
    await sidecar.waitForLog("mcp server exited");
    const accepted = await countAccepted(sidecar);
    const client = await LaneClient.connect(sidecar);
    expect(await client.toolText("echo", { text: "in a session" })).toBe("in a session");
    // Its initialize counts once: it, and two calls.
    expect(await countAccepted(sidecar)).toBe(accepted + 3);
  });
});
