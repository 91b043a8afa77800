import { writeFile } from "node:fs/promises";
import { expect, it } from "vitest";
import { readWhere } from "../support/fixture-server.ts";
import { ACCEPTED, answering, answersOf, elicitation, FORM_ELICITATION, inputRequired } from "../support/questions.ts";
import { HttpBench } from "../support/http-bench.ts";
import { signalServer } from "../support/in-process-server.ts";
import { readStatus } from "../support/status.ts";
import { tokenClients } from "../support/token-clients.ts";

const NAME = { questions: [elicitation("name")] };
const AMBIGUOUS = { error: { code: -32000, message: expect.stringContaining("several are in flight") as unknown } };

it("a question during slow calls of the same client finds its call when those have ended", async () => {
  await using sidecar = await HttpBench.start();
  const client = sidecar.modernClient({ capabilities: FORM_ELICITATION });
  const path = sidecar.directory.file("go");
  const slow = [1, 2, 3].map((id) => client.callTool("wait_for_file", { path }, { id: `slow-${id}` }));
  const waiting = await sidecar.waitFor(() => (sidecar.transcript().split(`waiting for ${path}`).length >= 4 ? true : undefined), "calls");
  const asking = client.callTool("ask_all", NAME);
  // No more calls are sent to the process meanwhile.
  await writeFile(path, "");
  const reply = await asking;
  expect([waiting, Object.keys(inputRequired(reply).inputRequests)]).toEqual([true, ["name"]]);
  expect((await Promise.all(slow)).map(({ status }) => status)).toEqual([200, 200, 200]);
  expect(answersOf(await client.callTool("ask_all", NAME, answering(reply)))).toEqual({ name: ACCEPTED });
});

it("of two calls of one client that ask, the question of the newest one is refused after a time", async () => {
  await using sidecar = await HttpBench.start();
  const client = sidecar.modernClient({ capabilities: FORM_ELICITATION });
  const askAt = sidecar.directory.file("ask");
  const args = [1, 2].map((id) => ({ questions: [elicitation(`name-${id}`, {}, { askAt })] }));
  const calls = args.map((each) => client.callTool("ask_all", each));
  while (!/(tools\/call.*){3}/.test(await client.toolText("seen")));
  await writeFile(askAt, "");
  const [first, second] = await Promise.all(calls);
  const replies = [first, second].filter((reply) => reply !== undefined);
  const asked = replies.filter(({ result }) => result?.["resultType"] === "input_required");
  const refused = replies.filter((reply) => !asked.includes(reply));
  expect([asked.length, refused.map(answersOf)]).toEqual([1, [{ [`name-${refused[0] === second ? 2 : 1}`]: AMBIGUOUS }]]);
  const [only] = asked;
  const index = only === first ? 0 : 1;
  expect(only && answersOf(await client.callTool("ask_all", args[index], answering(only)))).toEqual({ [`name-${index + 1}`]: ACCEPTED });
  expect((await readStatus(sidecar)).stateless?.asks?.unattributed).toBe(1);
});

it("a client whose call was cancelled does not get the question of a later call of another client", async () => {
  await using sidecar = await HttpBench.start({ hasTokens: true });
  const [first, second] = tokenClients(sidecar, FORM_ELICITATION);
  const { pid } = await readWhere(first);
  const stop = new AbortController();
  const questions = [elicitation("name", {}, { askAt: sidecar.directory.file("ask") })];
  const abandoned = first.callTool("ask_all", { questions }, { signal: stop.signal });
  await readWhere(first);
  stop.abort();
  await expect(abandoned).rejects.toThrow("aborted");
  while (!(await first.toolText("seen")).includes("notifications/cancelled"));
  expect((await readWhere(second)).pid).not.toBe(pid);
  const reply = await second.callTool("ask_all", NAME);
  await writeFile(sidecar.directory.file("ask"), "");
  expect(answersOf(await second.callTool("ask_all", NAME, answering(reply)))).toEqual({ name: ACCEPTED });
});

it("a question without a call, or after the end of its call, is refused", async () => {
  await using sidecar = await HttpBench.start();
  const client = sidecar.modernClient({ capabilities: FORM_ELICITATION });
  const [early, askAt] = [sidecar.directory.file("early"), sidecar.directory.file("ask")];
  await writeFile(early, "");
  const reply = await client.callTool("ask_all", { questions: [elicitation("late", {}, { askAt })], early });
  expect(reply.result).toMatchObject({ content: [{ text: "early" }] });
  await writeFile(askAt, "");
  while ((await readStatus(sidecar)).stateless?.asks?.unattributed !== 1);
  await client.callTool("noise", { line: JSON.stringify({ jsonrpc: "2.0", ...elicitation("of noise") }) });
  const answers = JSON.parse(await client.toolText("answers")) as string[];
  expect(answers.map((line) => JSON.parse(line) as object)).toEqual([
    expect.objectContaining({ id: "late", error: { code: -32000, message: "The question belongs to no call in flight" } }),
    expect.objectContaining({ id: "of noise", error: expect.objectContaining({ code: -32600 }) as unknown }),
  ]);
});

it("a call that has asked is not sent again after a crash", async () => {
  await using sidecar = await HttpBench.start({ env: { FIXTURE_READ_ONLY: "ask_all" }, flags: ["--retry", "read-only"] });
  const client = sidecar.modernClient({ capabilities: FORM_ELICITATION });
  const { pid } = await readWhere(client);
  const args = { questions: [elicitation("a"), elicitation("never", {}, { askAt: "/nonexistent/never" })] };
  const reply = await client.callTool("ask_all", args);
  const next = client.callTool("ask_all", args, answering(reply));
  while (!(await client.toolText("answers")).includes("Ann"));
  signalServer(pid, "SIGKILL");
  expect((await next).error?.data).toMatchObject({ code: "UPSTREAM_EXITED", sent: true });
});
