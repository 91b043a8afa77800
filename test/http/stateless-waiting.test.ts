import { writeFile } from "node:fs/promises";
import { expect, it } from "vitest";
import { failureOf } from "../support/error-reply.ts";
import { Gate } from "../support/fixture-server.ts";
import { listedTool, ListedTools } from "../support/listed-tools.ts";
import { HttpBench } from "../support/http-bench.ts";
import { readStatus } from "../support/status.ts";
import { TempDir } from "../support/temp-dir.ts";
import { flagsForTokens, TOKENS } from "../support/token-clients.ts";

const [FIRST, ...OTHERS] = TOKENS;

it.each(["tools/call", "subscriptions/listen"])("%s is rejected if its token is removed meanwhile", async (method) => {
  await using directory = await TempDir.create();
  await using gate = await Gate.create();
  const flags = await flagsForTokens(directory);
  await using sidecar = await HttpBench.start({ mode: "gated", env: gate.env, flags, untilReady: false });
  const params = method === "tools/call" ? { name: "echo", arguments: {} } : { notifications: {} };
  const waiting = sidecar.modernClient({ token: FIRST }).request(method, params);
  const headers = { Authorization: `Bearer ${OTHERS[0]}` };
  while ((await readStatus(sidecar, headers)).lanes.shared.waiting !== 1);
  await writeFile(directory.file("tokens"), OTHERS.join("\n"));
  await sidecar.waitForLog("auth tokens reloaded");
  await gate.open();
  expect(failureOf(await waiting)).toEqual([401, -32603, "UNAUTHORIZED"]);
  expect((await readStatus(sidecar, headers)).stateless?.subscriptions).toBe(0);
});

it("a request holds no memory after its client has disconnected", async () => {
  await using gate = await Gate.create();
  await using sidecar = await HttpBench.start({ mode: "gated", env: gate.env, untilReady: false });
  const stop = new AbortController();
  const abandoned = sidecar.modernClient().callTool("echo", {}, { signal: stop.signal });
  while ((await readStatus(sidecar)).lanes.shared.waiting !== 1);
  stop.abort();
  await expect(abandoned).rejects.toThrow("aborted");
  while ((await readStatus(sidecar)).lanes.shared.waiting !== 0);
  expect((await readStatus(sidecar)).memory).toMatchObject({ requests: 0 });
});

it("calls that wait for the list of tools count for the limit of their client", async () => {
  await using tools = await ListedTools.create([listedTool("echo")]);
  await tools.fallSilent();
  await using sidecar = await HttpBench.start({ env: tools.env, flags: ["--max-session-requests", "2", "--child-era", "legacy"] });
  const client = sidecar.modernClient();
  const calls = [1, 2, 3].map((id) => client.callTool("echo", {}, { id }));
  expect(failureOf(await Promise.race(calls))).toEqual([429, -32603, "SESSION_OVERLOADED"]);
  const statuses = (await Promise.all(calls)).map(({ status }) => status);
  expect(statuses.toSorted((a, b) => a - b)).toEqual([200, 200, 429]);
});
