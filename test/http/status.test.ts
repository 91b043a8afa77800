import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { Gate, NO_RESTART, crash, waitForHanging, waitForSeen } from "../support/fixture-server.ts";
import { send } from "../support/http-client.ts";
import { LaneClient } from "../support/lane-client.ts";
import { PinnedTools } from "../support/pinned-tools.ts";
import { readReadiness, readStatus, waitForGeneration } from "../support/status.ts";
import { HttpBench } from "../support/http-bench.ts";
import { toolCall } from "../support/mcp-client.ts";

/** The path of every leaf, such as `lanes.shared.waiting`. A table whose keys are events counts as a leaf. */
function fieldPaths(value: unknown, path = ""): string[] {
  const isTable =
    /^(counters\.(exits|answers\.failures|http\.responses|requests\.refused)|lastExit\.stderrTail|policy\.descriptor\.drift)$/.test(path);
  if (typeof value !== "object" || value === null || isTable) return [path];
  return Object.entries(value).flatMap(([name, member]) => fieldPaths(member, path === "" ? name : `${path}.${name}`));
}

it("/status counts sessions, streams, requests, private servers and outcomes", async () => {
  await using sidecar = await HttpBench.start();
  const idle = await readStatus(sidecar);
  const none = { requestsInFlight: 0, waiting: 0, queuedBytes: 0 };
  expect(idle).toMatchObject({ sessions: 0, openStreams: 0, lanes: { shared: none, private: { servers: 0, ...none } } });
  const client = await sidecar.client();
  await LaneClient.connect(sidecar);
  using stream = await client.openStream();
  const hanging = [client.callTool("hang"), client.callTool("hang")];
  await waitForHanging(client, 2);
  const busy = await readStatus(sidecar);
  expect(busy).toMatchObject({
    sessions: 2,
    openStreams: 1,
    lanes: { shared: { ...none, requestsInFlight: 2 }, private: { ...none, servers: 1 } },
  });
  expect(busy.uptimeMs).toBeGreaterThanOrEqual(idle.uptimeMs);
  expect(busy.rssBytes).toBeGreaterThan(10_000_000);
  await client.toolText("release");
  await Promise.all(hanging);
  const before = (await readStatus(sidecar)).counters.http.responses;
  expect((await send(`${sidecar.origin}/nothing`, { method: "GET" })).status).toBe(404);
  expect((await client.callTool("echo")).status).toBe(200);
  const after = (await readStatus(sidecar)).counters.http.responses;
  // The call, and the first of the two reads.
  expect(after["200"]).toBe((before["200"] ?? 0) + 2);
  expect(after["404"]).toBe((before["404"] ?? 0) + 1);
  stream.close();
  while ((await readStatus(sidecar)).openStreams > 0);
});

it("/status counts requests without a session, in the process that serves them", async () => {
  await using sidecar = await HttpBench.start({ mode: "dual" });
  const none = { servers: 0, requestsInFlight: 0, waiting: 0, queuedBytes: 0 };
  expect(await readStatus(sidecar)).toMatchObject({
    lanes: { modern: none },
    stateless: { serverEra: "unknown", requests: 0, clients: 0 },
  });
  const client = sidecar.modernClient();
  const hanging = client.callTool("hang");
  while ((await client.toolText("hanging")) === "[]");
  const { lanes, stateless } = (await readStatus(sidecar)) as unknown as { lanes: object; stateless: object };
  expect(lanes).toMatchObject({ shared: { requestsInFlight: 0 }, modern: { ...none, servers: 1, requestsInFlight: 1 } });
  expect(stateless).toMatchObject({ serverEra: "modern", clients: 1, subscriptions: 0 });
  await client.toolText("release");
  await hanging;
});

it("/status counts requests that are held while the server is down", async () => {
  await using sidecar = await HttpBench.start({ flags: NO_RESTART });
  const client = await sidecar.client();
  await crash(sidecar);
  const leaving = new AbortController();
  const waiting = client.post({ jsonrpc: "2.0", id: 2, method: "x-vendor/later" }, { signal: leaving.signal }).catch(String);
  let status = await readStatus(sidecar);
  while (status.lanes.shared.waiting === 0) status = await readStatus(sidecar);
  expect(status.lanes.shared).toEqual({ requestsInFlight: 1, suspended: 0, waiting: 1, queuedBytes: expect.any(Number) as number });
  expect(status.lanes.shared.queuedBytes).toBeGreaterThan(40);
  leaving.abort();
  expect(await waiting).toContain("abort");
});

it("/status counts each request's outcome, and each kind of dropped output", async () => {
  await using gate = await Gate.create();
  await gate.open();
  const flags = ["--restart-backoff-ms", "1", "--restart-max-ms", "20", "--max-held-requests", "2"];
  await using sidecar = await HttpBench.start({ mode: "gated", env: gate.env, flags });
  const client = await sidecar.client();
  // Cancelled, with a late response.
  const cancelled = client.post(toolCall("hang", {}, 7));
  await waitForHanging(client, 1);
  await client.notify("notifications/cancelled", { requestId: 7 });
  expect((await cancelled).status).toBe(202);
  await client.toolText("release");
  // Without a matching request, not JSON, and an error.
  await client.toolText("noise", { line: '{"jsonrpc":"2.0","id":999999,"result":{}}' });
  await client.toolText("noise", { line: "hello" });
  await client.toolText("refuse", { method: "prompts/list" });
  expect((await client.request("prompts/list")).error?.code).toBe(-32602);
  // One retried, one held, and one rejected because there is no room for a third.
  await client.callTool("mute", { method: "resources/list" });
  const repeated = client.request("resources/list");
  await waitForSeen(client, "resources/list");
  await gate.close();
  await crash(sidecar);
  const held = client.request("x-vendor/held");
  while ((await readStatus(sidecar)).lanes.shared.waiting < 2);
  expect((await client.request("x-vendor/refused")).status).toBe(503);
  await gate.open();
  expect([(await repeated).status, (await held).status]).toEqual([200, 200]);

  const { requests, answers, exits, dropped } = (await readStatus(sidecar)).counters;
  const { results } = answers;
  expect(requests).toEqual({ accepted: results + 2, held: 1, repeated: 1, refused: { UPSTREAM_NOT_READY: 1 } });
  expect(results).toBeGreaterThan(8);
  expect(answers).toEqual({ results, errors: 1, dismissed: 1, unread: 0, failures: {} });
  expect(exits).toEqual({ signal: 1 });
  const none = { clientNotifications: 0, notifications: 0, requests: 0, questions: 0, overlongLines: 0 };
  expect(dropped).toEqual({ ...none, lateAnswers: 1, unknownAnswers: 1, noiseLines: 1 });
});

it("/status describes the server as /readyz does, but always with 200", async () => {
  await using sidecar = await HttpBench.start({ flags: NO_RESTART });
  const { httpStatus: ready, ...whenReady } = await readReadiness(sidecar);
  expect(await readStatus(sidecar)).toMatchObject(whenReady);
  await (await sidecar.client()).callTool("exit", { code: 3 });
  await sidecar.waitForLog("mcp server will be restarted");
  const { httpStatus: away, ...whenAway } = await readReadiness(sidecar);
  expect([ready, away, whenAway.lastExit?.exitCode]).toEqual([200, 503, 3]);
  const { headers } = await send(`${sidecar.origin}/status?pretty`, { method: "GET" });
  expect(headers).toMatchObject({ "content-type": "application/json", "cache-control": "no-store" });
  expect(await readStatus(sidecar)).toMatchObject(whenAway);
});

it("/status has exactly the fields that docs/operations/status.md explains", async () => {
  await using pinned = await PinnedTools.review({ name: "exit" });
  await using sidecar = await pinned.start();
  const client = await sidecar.client();
  await client.callTool("exit", { code: 1 });
  await waitForGeneration(sidecar, 2);
  await sidecar.modernClient({ capabilities: { sampling: {} } }).request("tools/list");
  const manual = readFileSync(new URL("../../docs/operations/status.md", import.meta.url), "utf8");
  const documented = manual.split("\n").flatMap((line) => /^\| `([\w.]+)` \|/.exec(line)?.[1] ?? []);
  const fields = documented.map((field) => field.replace("NAME", "sampling"));
  expect(fields.toSorted()).toEqual(fieldPaths(await readStatus(sidecar)).toSorted());
});
