import { writeFile } from "node:fs/promises";
import { describe, expect, it } from "vitest";
import { failureOf } from "../support/error-reply.ts";
import { offer, readWhere } from "../support/fixture-server.ts";
import { META, type ModernClient } from "../support/modern-client.ts";
import {
  ACCEPTED,
  ALL_QUESTIONS,
  answering,
  answersOf,
  elicitation,
  inputRequired,
  SAMPLED,
  sampling,
  UNKNOWN_STATE,
} from "../support/questions.ts";
import { HttpBench } from "../support/http-bench.ts";
import type { RunningSidecar } from "../support/running-sidecar.ts";
import { type Status, readStatus } from "../support/status.ts";
import { TOKENS } from "../support/token-clients.ts";

const NAME = { questions: [elicitation("name")] };
const [FIRST, SECOND] = TOKENS;

async function waitForStatus(sidecar: RunningSidecar, accepts: (status: Status) => boolean, token?: string): Promise<void> {
  const headers = token === undefined ? {} : { Authorization: `Bearer ${token}` };
  while (!accepts(await readStatus(sidecar, headers)));
}

function clientOf(sidecar: RunningSidecar, token?: string): ModernClient {
  return sidecar.modernClient({ capabilities: ALL_QUESTIONS, token });
}

/** Waits until the process of a client is ready, which may take longer than the limits of a test. */
async function startProcess(client: ModernClient): Promise<void> {
  while ((await client.request("tools/list")).result === undefined);
}

describe("a call whose client was asked", () => {
  it("takes no slot and no request time, and is shown in /status", async () => {
    await using sidecar = await HttpBench.start({ flags: ["--request-timeout-ms", "1000"] });
    const client = clientOf(sidecar);
    await startProcess(client);
    const reply = await client.callTool("ask_all", NAME);
    const { lanes, stateless } = await readStatus(sidecar);
    expect(lanes.asking).toEqual({
      "elicitation.form+elicitation.url+sampling+sampling.tools": { servers: 1, requestsInFlight: 0, waiting: 0, queuedBytes: 0 },
    });
    expect(stateless?.asks).toEqual({ servers: 1, parked: { now: 1, expired: 0, refused: 0 }, unattributed: 0 });
    // Longer than the timeout: another call of the same client times out meanwhile.
    expect(failureOf(await client.callTool("hang"))).toEqual([200, -32603, "REQUEST_TIMEOUT"]);
    expect(answersOf(await client.callTool("ask_all", NAME, answering(reply)))).toEqual({ name: ACCEPTED });
    expect((await readStatus(sidecar)).stateless?.asks?.parked.now).toBe(0);
  });

  it("other calls use another process meanwhile, and the first one again afterwards", async () => {
    await using sidecar = await HttpBench.start();
    const client = clientOf(sidecar);
    const { pid } = await readWhere(client);
    const reply = await client.callTool("ask_all", NAME);
    const others = await Promise.all(Array.from({ length: 3 }, () => readWhere(client)));
    expect(new Set(others.map((other) => other.pid)).size).toBe(1);
    expect(others[0]?.pid).not.toBe(pid);
    await client.callTool("ask_all", NAME, answering(reply));
    expect((await readStatus(sidecar)).stateless?.asks?.servers).toBe(2);
  });

  it("other calls wait if there is no other process, and are sent afterwards", async () => {
    await using sidecar = await HttpBench.start({ flags: ["--max-private-servers", "1"] });
    const client = clientOf(sidecar);
    const reply = await client.callTool("ask_all", NAME);
    const waiting = client.callTool("echo", { text: "later" });
    await waitForStatus(sidecar, ({ lanes }) => Object.values(lanes.asking).some((lane) => lane.waiting === 1));
    await client.callTool("ask_all", NAME, answering(reply));
    expect((await waiting).result).toMatchObject({ content: [{ text: "later" }] });
  });

  it("a discovery does not wait, and MAX_IN_FLIGHT holds for the calls that have waited", async () => {
    await using sidecar = await HttpBench.start({ flags: ["--max-private-servers", "1", "--max-in-flight", "1"] });
    const client = clientOf(sidecar);
    const reply = await client.callTool("ask_all", NAME);
    const calls = [1, 2, 3, 4].map((id) => client.callTool("hang", {}, { id: `held-${id}` }));
    await waitForStatus(sidecar, ({ lanes }) => Object.values(lanes.asking).some((lane) => lane.waiting === 4));
    expect((await client.request("server/discover")).status).toBe(200);
    await client.callTool("ask_all", NAME, answering(reply));
    await waitForStatus(sidecar, ({ lanes }) =>
      Object.values(lanes.asking).some((lane) => lane.requestsInFlight === 4 && lane.waiting === 3),
    );
    await sidecar.stop();
    expect((await Promise.all(calls)).map(({ error }) => error?.data?.["sent"]).filter((sent) => sent === true)).toHaveLength(1);
  });

  it("the log level of the request that answers reaches the server", async () => {
    const env = { FIXTURE_INITIALIZE_RESULT: offer({ tools: {}, logging: {} }) };
    await using sidecar = await HttpBench.start({ mode: "keeps-state", env });
    const client = clientOf(sidecar);
    const reply = await client.callTool("ask_all", NAME);
    const last = await client.callTool("ask_all", NAME, { ...answering(reply), meta: { [META.logLevel]: "debug" } });
    expect(answersOf(last)).toEqual({ name: ACCEPTED });
    while (!(await client.toolText("lines")).includes('\\"level\\":\\"debug\\"'));
  });

  it("a call that waits for another process too long is refused unsent", async () => {
    await using sidecar = await HttpBench.start({ flags: ["--max-private-servers", "1", "--hold-timeout-ms", "300"] });
    const client = clientOf(sidecar);
    await startProcess(client);
    await client.callTool("ask_all", NAME);
    const refused = await client.callTool("echo", { text: "never" });
    expect([failureOf(refused), refused.error?.data?.["sent"]]).toEqual([[503, -32603, "OVERLOADED"], false]);
    expect(refused.error?.message).toContain("its processes wait for answers of clients");
  });

  it("its result is kept if the server answers before the client", async () => {
    await using sidecar = await HttpBench.start({ flags: ["--max-private-servers", "1"] });
    const client = clientOf(sidecar);
    const args = { ...NAME, early: sidecar.directory.file("early") };
    const reply = await client.callTool("ask_all", args);
    await writeFile(sidecar.directory.file("early"), "");
    // The only process is free after its result.
    await client.toolText("echo", { text: "free" });
    const next = await client.callTool("ask_all", args, { id: "late", ...answering(reply) });
    expect(next).toMatchObject({ id: "late", result: { resultType: "complete", content: [{ text: "early" }] } });
    expect(failureOf(await client.callTool("ask_all", args, answering(reply)))).toEqual(UNKNOWN_STATE);
  });

  it("its result is kept if the server withdraws the question", async () => {
    await using sidecar = await HttpBench.start({ flags: ["--max-private-servers", "1"] });
    const client = clientOf(sidecar);
    const args = { questions: [elicitation("name", {}, { withdrawAt: sidecar.directory.file("withdraw") })] };
    const reply = await client.callTool("ask_all", args);
    await writeFile(sidecar.directory.file("withdraw"), "");
    await client.toolText("echo", { text: "free" });
    expect(answersOf(await client.callTool("ask_all", args, answering(reply)))).toEqual({ name: "withdrawn" });
  });

  it("an answer is not sent to a later question with the same key", async () => {
    await using sidecar = await HttpBench.start();
    const client = clientOf(sidecar);
    const [withdrawAt, askAt] = [sidecar.directory.file("withdraw"), sidecar.directory.file("ask")];
    const questions = [
      elicitation("old one", { message: "Read?" }, { withdrawAt }),
      elicitation("new one", { message: "Delete?" }, { askAt }),
    ];
    const first = await client.callTool("ask_all", { questions });
    await writeFile(withdrawAt, "");
    await writeFile(askAt, "");
    const second = await client.callTool("ask_all", { questions }, answering(first));
    expect(Object.values(inputRequired(second).inputRequests).map(({ params }) => params["message"])).toEqual(["Delete?"]);
    const last = await client.callTool("ask_all", { questions }, answering(second, { action: "decline" }));
    expect(answersOf(last)).toMatchObject({ "new one": { action: "decline" } });
  });

  it("a question that comes later is asked with the next request", async () => {
    await using sidecar = await HttpBench.start();
    const client = clientOf(sidecar);
    const args = { questions: [elicitation("a"), sampling("late", {}, { askAt: sidecar.directory.file("ask") })] };
    const first = await client.callTool("ask_all", args);
    const second = client.callTool("ask_all", args, answering(first));
    await writeFile(sidecar.directory.file("ask"), "");
    expect(Object.keys(inputRequired(await second).inputRequests)).toEqual(["late"]);
    expect(answersOf(await client.callTool("ask_all", args, answering(await second, SAMPLED)))).toEqual({ a: ACCEPTED, late: SAMPLED });
  });

  it("is cancelled if the connection of the next request closes", async () => {
    await using sidecar = await HttpBench.start();
    const client = clientOf(sidecar);
    const args = { questions: [elicitation("a"), elicitation("never", {}, { askAt: "/nonexistent/never" })] };
    const first = await client.callTool("ask_all", args);
    const stop = new AbortController();
    const second = client.callTool("ask_all", args, { ...answering(first), signal: stop.signal });
    while (!(await client.toolText("answers")).includes("Ann"));
    stop.abort();
    await expect(second).rejects.toThrow("aborted");
    await waitForStatus(sidecar, ({ lanes }) => Object.values(lanes.asking).every((lane) => lane.requestsInFlight === 0));
    while (!(await client.toolText("seen")).includes("notifications/cancelled"));
  });

  it("is bound to its client, and ends when the token of that one is removed", async () => {
    await using sidecar = await HttpBench.start({ hasTokens: true });
    const reply = await clientOf(sidecar, FIRST).callTool("ask_all", NAME);
    const other = clientOf(sidecar, SECOND);
    expect(failureOf(await other.callTool("ask_all", NAME, answering(reply)))).toEqual(UNKNOWN_STATE);
    await writeFile(sidecar.directory.file("tokens"), SECOND);
    await waitForStatus(sidecar, ({ stateless }) => stateless?.asks?.parked.now === 0, SECOND);
    await sidecar.waitForLog("request given up", ({ reason }) => reason === "its token was removed");
  });
});
