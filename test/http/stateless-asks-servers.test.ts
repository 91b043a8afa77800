import { writeFile } from "node:fs/promises";
import { expect, it } from "vitest";
import { readWhere } from "../support/fixture-server.ts";
import { LaneClient } from "../support/lane-client.ts";
import type { ModernClient } from "../support/modern-client.ts";
import { processEnd } from "../support/process-end.ts";
import { ACCEPTED, ALL_QUESTIONS, answering, answersOf, elicitation, FORM_ELICITATION } from "../support/questions.ts";
import { HttpBench } from "../support/http-bench.ts";
import { signalServer } from "../support/in-process-server.ts";
import { readStatus } from "../support/status.ts";
import { TOKENS, tokenClients } from "../support/token-clients.ts";

const NAME = { questions: [elicitation("name")] };
/** A client has a process for each of these. */
const SETS = [FORM_ELICITATION, { elicitation: { url: {} } }, { sampling: {} }];

it("there is one for each set of capabilities of a client", async () => {
  await using sidecar = await HttpBench.start();
  const sets = [FORM_ELICITATION, { elicitation: { url: {} } }, { sampling: {} }, { elicitation: {}, sampling: {} }];
  const pids = await Promise.all(sets.map(async (capabilities) => (await readWhere(sidecar.modernClient({ capabilities }))).pid));
  const shared = await readWhere(sidecar.modernClient());
  expect(new Set([...pids, shared.pid]).size).toBe(5);
  const { lanes } = await readStatus(sidecar);
  expect(Object.keys(lanes.asking).toSorted((a, b) => a.localeCompare(b))).toEqual([
    "elicitation.form",
    "elicitation.form+sampling",
    "elicitation.url",
    "sampling",
  ]);
});

it("one that is not used for SESSION_IDLE_TIMEOUT_MS ends, and its set starts another one", async () => {
  await using sidecar = await HttpBench.start({ flags: ["--session-idle-timeout-ms", "300"] });
  const client = sidecar.modernClient({ capabilities: ALL_QUESTIONS });
  const { pid } = await readWhere(client);
  await processEnd(pid);
  expect(await sidecar.waitForLog("lane ended")).toMatchObject({ lane: "asking-1", reason: "idle" });
  expect((await readWhere(client)).pid).not.toBe(pid);
});

it("one whose client is asked does not end, however long the answer takes", async () => {
  await using sidecar = await HttpBench.start({ flags: ["--session-idle-timeout-ms", "300"] });
  const client = sidecar.modernClient({ capabilities: FORM_ELICITATION });
  const reply = await client.callTool("ask_all", NAME);
  // A later one ends by the same clock.
  await readWhere(sidecar.modernClient({ capabilities: { sampling: {} } }));
  expect(await sidecar.waitForLog("lane ended")).toMatchObject({ lane: "asking-2", reason: "idle" });
  expect(answersOf(await client.callTool("ask_all", NAME, answering(reply)))).toEqual({ name: ACCEPTED });
});

it("a client without a place gets TOO_MANY_SERVERS until an idle process of another one makes room", async () => {
  await using sidecar = await HttpBench.start({ hasTokens: true, flags: ["--max-private-servers", "5"] });
  const [, second] = tokenClients(sidecar, FORM_ELICITATION);
  const clientsOf = (token: string): ModernClient[] => SETS.map((capabilities) => sidecar.modernClient({ capabilities, token }));
  const [few, many] = [clientsOf(TOKENS[0]).slice(0, 2), clientsOf(TOKENS[2])];
  const pids = await Promise.all(few.map(readWhere));
  await Promise.all(many.map(readWhere));
  const refused = await second.callTool("where");
  expect([refused.status, refused.error?.data]).toMatchObject([503, { code: "TOO_MANY_SERVERS", sent: false }]);
  expect(refused.error?.data?.["retryAfterSeconds"]).toBeLessThanOrEqual(5);
  // After some seconds without use, one ends of the client with the most processes. Those of the other client were used before them.
  while ((await second.callTool("where")).status === 503);
  expect(await sidecar.waitForLog("lane ended")).toMatchObject({
    reason: "room for another one",
    lane: expect.stringMatching(/-[345]$/) as unknown,
  });
  expect(await Promise.all(few.map(readWhere))).toEqual(pids);
});

it("a client gets at most half of the processes, so others get theirs", async () => {
  await using sidecar = await HttpBench.start({ hasTokens: true, flags: ["--max-private-servers", "4"] });
  const own = SETS.map((capabilities) => sidecar.modernClient({ capabilities, token: TOKENS[0] }));
  const paths = ["one", "two"].map((name) => sidecar.directory.file(name));
  const slow = Promise.all(paths.map(async (path, index) => own[index]?.callTool("wait_for_file", { path })));
  for (const path of paths) {
    await sidecar.waitFor(() => (sidecar.transcript().includes(`waiting for ${path}`) ? true : undefined), "the call");
  }
  const refused = await own[2]?.callTool("where");
  expect([refused?.status, refused?.error?.data]).toMatchObject([503, { code: "TOO_MANY_SERVERS", sent: false }]);
  expect(refused?.error?.message).toContain("the 2 of 4 that it may have are in use");
  const [, second, third] = tokenClients(sidecar, FORM_ELICITATION);
  for (const other of [second, third]) expect((await other.callTool("where")).status).toBe(200);
  for (const path of paths) await writeFile(path, "");
  for (const reply of await slow) expect(reply?.status).toBe(200);
});

it("a private server has a place of theirs", async () => {
  await using sidecar = await HttpBench.start({ flags: ["--max-private-servers", "1"] });
  await LaneClient.connect(sidecar);
  const refused = await sidecar.modernClient({ capabilities: FORM_ELICITATION }).callTool("where");
  expect([refused.status, refused.error?.data]).toMatchObject([503, { code: "TOO_MANY_SERVERS", sent: false }]);
});

it("the processes of a token end when it is removed", async () => {
  await using sidecar = await HttpBench.start({ hasTokens: true });
  const [first, second] = tokenClients(sidecar, FORM_ELICITATION);
  const [{ pid }, other] = [await readWhere(first), await readWhere(second)];
  await writeFile(sidecar.directory.file("tokens"), TOKENS.slice(1).join("\n"));
  await processEnd(pid);
  expect(await readWhere(second)).toEqual(other);
});

it("a subscription ends gracefully with its process", async () => {
  await using sidecar = await HttpBench.start({ flags: ["--restart-limit", "1", "--restart-max-ms", "100"] });
  const client = sidecar.modernClient({ capabilities: FORM_ELICITATION });
  const listen = await client.listen({ toolsListChanged: true }, { id: "mine" });
  for (const generation of [1, 2]) {
    const isOfAsking = (line: Readonly<Record<string, unknown>>): boolean =>
      line["lane"] === "asking-1" && line["generation"] === generation;
    const { childPid } = await sidecar.waitForLog("mcp server ready", isOfAsking);
    signalServer(Number(childPid), "SIGKILL");
  }
  expect((await listen.rest()).at(-1)).toMatchObject({ id: "mine", result: { resultType: "complete" } });
  await sidecar.waitForLog("lane ended");
  expect(await client.toolText("echo", { text: "again" })).toBe("again");
});

it("a client whose call waits for answers is not forgotten for others", async () => {
  await using sidecar = await HttpBench.start({ hasTokens: true, flags: ["--max-sessions", "2"] });
  const [first, ...others] = tokenClients(sidecar, FORM_ELICITATION);
  const reply = await first.callTool("ask_all", NAME);
  for (const other of others) await other.toolText("echo", { text: "x" });
  expect(answersOf(await first.callTool("ask_all", NAME, answering(reply)))).toEqual({ name: ACCEPTED });
});

it("cancelled calls of a client start no more processes, and keep no other one from being asked", async () => {
  await using sidecar = await HttpBench.start({ hasTokens: true });
  const [first, second] = tokenClients(sidecar, FORM_ELICITATION);
  for (let round = 0; round < 4; round++) {
    const stop = new AbortController();
    const path = sidecar.directory.file(`never-${round}`);
    const abandoned = first.callTool("wait_for_file", { path }, { signal: stop.signal });
    await sidecar.waitFor(() => (sidecar.transcript().includes(`waiting for ${path}`) ? true : undefined), "the call");
    stop.abort();
    await expect(abandoned).rejects.toThrow("aborted");
    const reply = await second.callTool("ask_all", NAME);
    expect(answersOf(await second.callTool("ask_all", NAME, answering(reply)))).toEqual({ name: ACCEPTED });
  }
  const status = await readStatus(sidecar, { Authorization: `Bearer ${TOKENS[0]}` });
  expect(status.lanes.asking["elicitation.form"]?.servers).toBe(2);
});
