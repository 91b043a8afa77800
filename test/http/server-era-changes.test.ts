import { expect, it } from "vitest";
import { Gate, QUICK_RESTART, crashProcess, offer, readWhere } from "../support/fixture-server.ts";
import { errorReply, readError } from "../support/error-reply.ts";
import { LaneClient } from "../support/lane-client.ts";
import { noticeOf, waitUntilFree } from "../support/listens.ts";
import { ASKABLE, initializeRequest } from "../support/mcp-client.ts";
import type { ModernClient } from "../support/modern-client.ts";
import { HttpBench } from "../support/http-bench.ts";
import { signalServer } from "../support/in-process-server.ts";
import type { RunningSidecar } from "../support/running-sidecar.ts";
import { readStatus } from "../support/status.ts";

/** Silence lasts for READY_TIMEOUT_MS, and once more in a second process. */
const FLAGS = { normal: [], "exits-on-discover": [], "ignores-discover": ["--ready-timeout-ms", "8000", "--isolation", "shared"] };
const FILTER = { toolsListChanged: true };
const INITIALIZE_RESULT = offer({ tools: { listChanged: true } }, { instructions: "1.0" });

function start(mode: string, nextMode: string, gate: Gate, flags: readonly string[] = []): Promise<RunningSidecar> {
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
    await using sidecar = await start("modern-only", nextMode, gate, FLAGS[nextMode]);
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
  await using sidecar = await start("normal", "modern-only", gate);
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
    await using sidecar = await start("dual", nextMode, gate);
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
  await using sidecar = await start("dual", "exits-on-discover", gate);
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
  await using sidecar = await start("dual", "exits-on-discover", gate, ["--restart-backoff-ms", "3000", "--restart-max-ms", "3000"]);
  const client = sidecar.modernClient();
  await change(sidecar, client, gate);
  const { status, error } = await client.callTool("echo", { text: "waits" });
  expect({ status, data: error?.data }).toMatchObject({ status: 503, data: { code: "UPSTREAM_NOT_READY", sent: false } });
});

it("RESTART_LIMIT of the second process ends its subscriptions, and the next request starts it again", async () => {
  await using gate = await Gate.create();
  await using sidecar = await start("dual", "dual", gate, ["--restart-limit", "1", "--restart-max-ms", "60000"]);
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
  await using sidecar = await start("normal", "modern-only", gate, ["--restart-backoff-ms", "4000", "--restart-max-ms", "4000"]);
  const client = sidecar.modernClient();
  await change(sidecar, client, gate);
  const { error } = await client.callTool("echo", { text: "never sent" });
  expect(error?.data).toMatchObject({ code: "UPSTREAM_NOT_READY", sent: false });
  expect(error?.message).toContain("another revision");
  await waitForEra(sidecar, client, "modern 1.0");
});

it("the session of a private server that comes back without sessions ends, and its client can open another one", async () => {
  await using gate = await Gate.create();
  await using sidecar = await start("normal", "modern-only", gate);
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
  await using sidecar = await start("normal", "modern-only", gate);
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
  await using sidecar = await start("normal", "modern-only", gate, ["--restart-backoff-ms", "2000", "--restart-max-ms", "2000"]);
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
