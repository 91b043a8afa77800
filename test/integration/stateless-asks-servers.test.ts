import { writeFile } from "node:fs/promises";
import { describe, expect, it } from "vitest";
import { readWhere } from "../support/in-flight.ts";
import { META } from "../support/modern-client.ts";
import { processEnd } from "../support/process-end.ts";
import { ACCEPTED, ALL_QUESTIONS, answering, answersOf, elicitation, FORM_ELICITATION } from "../support/questions.ts";
import { Sidecar } from "../support/sidecar.ts";
import { readStatus } from "../support/status.ts";
import { TempDir } from "../support/temp-dir.ts";
import { flagsForTokens, TOKENS, tokenClients } from "../support/token-clients.ts";

const NAME = { questions: [elicitation("name")] };
describe("the processes for questions", () => {
  it("there is one for each set of capabilities of a client", async () => {
    await using sidecar = await Sidecar.start();
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

  it("a server learns exactly the capabilities of its clients", async () => {
    await using sidecar = await Sidecar.start();
    const client = sidecar.modernClient({ capabilities: { elicitation: {}, sampling: { context: {} }, roots: {} } });
    const [initialize] = JSON.parse(await client.toolText("lines")) as string[];
    expect(JSON.parse(initialize ?? "")).toMatchObject({ params: { capabilities: { elicitation: { form: {} }, sampling: {} } } });
    expect(initialize).not.toContain("roots");
  });

  it("clients that declare none share the process of sessions, and no other one starts", async () => {
    await using sidecar = await Sidecar.start({ flags: ["--child-era", "legacy"] });
    const session = await sidecar.client();
    expect(await readWhere(sidecar.modernClient())).toEqual(await readWhere(session));
    expect((await readStatus(sidecar)).stateless?.asks?.servers).toBe(0);
  });

  it("one that is not used for SESSION_IDLE_TIMEOUT_MS ends, and its set starts another one", async () => {
    await using sidecar = await Sidecar.start({ flags: ["--session-idle-timeout-ms", "300"] });
    const client = sidecar.modernClient({ capabilities: ALL_QUESTIONS });
    const { pid } = await readWhere(client);
    await processEnd(pid);
    expect(await sidecar.waitForLog("lane ended")).toMatchObject({ lane: "asking-1", reason: "idle" });
    expect((await readWhere(client)).pid).not.toBe(pid);
  });

  it("the log level of a client reaches each process that it uses", async () => {
    const env = {
      FIXTURE_INITIALIZE_RESULT: JSON.stringify({
        protocolVersion: "2025-11-25",
        capabilities: { tools: {}, logging: {} },
        serverInfo: { name: "f", version: "1" },
      }),
    };
    await using sidecar = await Sidecar.start({ mode: "keeps-state", env });
    const call = { meta: { [META.logLevel]: "info" } };
    for (const capabilities of [{}, FORM_ELICITATION]) {
      const client = sidecar.modernClient({ capabilities });
      await client.callTool("echo", {}, call);
      const { notifications } = await client.callTool("log", { level: "warning", data: "x" }, call);
      expect(notifications).toMatchObject([{ method: "notifications/message", params: { data: "x" } }]);
    }
  });

  it("a client without a place gets TOO_MANY_SERVERS until an idle process of another one makes room", async () => {
    await using directory = await TempDir.create();
    await using sidecar = await Sidecar.start({ flags: [...(await flagsForTokens(directory)), "--max-private-servers", "2"] });
    const [first, second] = tokenClients(sidecar, FORM_ELICITATION);
    const reply = await first.callTool("ask_all", NAME);
    await readWhere(first);
    expect(answersOf(await first.callTool("ask_all", NAME, answering(reply)))).toEqual({ name: ACCEPTED });
    const refused = await second.callTool("where");
    expect([refused.status, refused.error?.data]).toMatchObject([503, { code: "TOO_MANY_SERVERS", sent: false, retryAfterSeconds: 5 }]);
    // One of the first client's processes is spare, and so ends after some seconds without use.
    while ((await second.callTool("where")).status === 503);
    expect((await sidecar.waitForLog("lane ended"))["reason"]).toBe("room for another one");
    expect((await first.callTool("where")).status).toBe(200);
  });

  it("the processes of a token end when it is removed", async () => {
    await using directory = await TempDir.create();
    await using sidecar = await Sidecar.start({ flags: await flagsForTokens(directory) });
    const [first, second] = tokenClients(sidecar, FORM_ELICITATION);
    const [{ pid }, other] = [await readWhere(first), await readWhere(second)];
    await writeFile(directory.file("tokens"), TOKENS.slice(1).join("\n"));
    await processEnd(pid);
    expect(await readWhere(second)).toEqual(other);
  });

  it("a subscription ends gracefully with its process", async () => {
    await using sidecar = await Sidecar.start({ flags: ["--restart-limit", "1", "--restart-max-ms", "100"] });
    const client = sidecar.modernClient({ capabilities: FORM_ELICITATION });
    const listen = await client.listen({ toolsListChanged: true }, { id: "mine" });
    for (const generation of [1, 2]) {
      const isOfAsking = (line: Readonly<Record<string, unknown>>): boolean =>
        line["lane"] === "asking-1" && line["generation"] === generation;
      const { childPid } = await sidecar.waitForLog("mcp server ready", isOfAsking);
      process.kill(Number(childPid), "SIGKILL");
    }
    expect((await listen.rest()).at(-1)).toMatchObject({ id: "mine", result: { resultType: "complete" } });
    await sidecar.waitForLog("lane ended");
    expect(await client.toolText("echo", { text: "again" })).toBe("again");
  });

  it("a client whose call waits for answers is not forgotten for others", async () => {
    await using directory = await TempDir.create();
    await using sidecar = await Sidecar.start({ flags: [...(await flagsForTokens(directory)), "--max-sessions", "2"] });
    const [first, ...others] = tokenClients(sidecar, FORM_ELICITATION);
    const reply = await first.callTool("ask_all", NAME);
    for (const other of others) await other.toolText("echo", { text: "x" });
    expect(answersOf(await first.callTool("ask_all", NAME, answering(reply)))).toEqual({ name: ACCEPTED });
  });

  it("cancelled calls of a client start no more processes, and keep no other one from being asked", async () => {
    await using directory = await TempDir.create();
    await using sidecar = await Sidecar.start({ flags: await flagsForTokens(directory) });
    const [first, second] = tokenClients(sidecar, FORM_ELICITATION);
    for (let round = 0; round < 4; round++) {
      const stop = new AbortController();
      const path = directory.file(`never-${round}`);
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
});
