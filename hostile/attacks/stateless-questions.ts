// Questions of a server with sessions to clients without one: in numbers and forms that no honest server or client has.

import type { Attack } from "../attack.ts";
import { expectNothingLeft } from "../leftovers.ts";
import { StatelessAttacker } from "../stateless-attacker.ts";
import { stateless } from "./stateless.ts";

const MIB = 1024 * 1024;
const CAPABILITIES = { elicitation: {}, sampling: {}, roots: {} };
/** Calls end soon after the attack. */
const FLAGS = ["--park-timeout-ms", "2000", "--max-private-servers", "8", "--request-timeout-ms", "5000"];
const QUESTION = { method: "elicitation/create", params: { message: "?", requestedSchema: { type: "object", properties: {} } } };
const ANSWER = { action: "accept", content: {} };

interface Asked {
  readonly result?: {
    readonly resultType?: string;
    readonly inputRequests?: Readonly<Record<string, unknown>>;
    readonly requestState?: string;
  };
}

/** Returns an attack by a client that declares all questions. */
function questions(name: string, run: (client: StatelessAttacker, others: readonly StatelessAttacker[]) => Promise<void>): Attack {
  return stateless(
    `questions: ${name}`,
    async ({ attacker }, { others }) => {
      const client = new StatelessAttacker(attacker, CAPABILITIES);
      await run(
        client,
        others.map((other) => new StatelessAttacker(other, CAPABILITIES)),
      );
      await expectNothingLeft(client.attacker);
    },
    { flags: FLAGS },
  );
}

/** Makes the server ask. @returns the result that asks the client; undefined for any other response. */
async function ask(client: StatelessAttacker, args: object): Promise<Required<Asked>["result"] | undefined> {
  const sent = await client.callTool("trick", { trick: "ask", ...args });
  const result = sent === undefined ? undefined : (JSON.parse(sent.body.slice(sent.body.indexOf("{"))) as Asked).result;
  return result?.resultType === "input_required" ? result : undefined;
}

/** Sends the request that answers. */
function answer(
  client: StatelessAttacker,
  args: object,
  requestState: unknown,
  inputResponses: unknown,
): ReturnType<StatelessAttacker["request"]> {
  return client.request("tools/call", { name: "trick", arguments: { trick: "ask", ...args }, requestState, inputResponses });
}

function linesOf(lines: readonly object[]): { readonly lines: readonly string[] } {
  return { lines: lines.map((line) => JSON.stringify({ jsonrpc: "2.0", ...line })) };
}

export const QUESTION_ATTACKS: readonly Attack[] = [
  questions("40 calls in turn and 200 at once that ask, and a client that never answers", async (client) => {
    for (let index = 0; index < 40; index++) await ask(client, { ...linesOf([{ id: `q${index}`, ...QUESTION }]), isDone: true });
    await Promise.all(Array.from({ length: 200 }, (_, index) => ask(client, linesOf([{ id: `q${index}`, ...QUESTION }]))));
  }),
  questions("20 clients that ask at the same time, and never answer", async (client, others) => {
    await Promise.all([client, ...others].map((each, index) => ask(each, linesOf([{ id: `q${index}`, ...QUESTION }]))));
  }),
  questions("10,000 questions in one call", async (client) => {
    await ask(client, linesOf(Array.from({ length: 10_000 }, (_, index) => ({ id: index, ...QUESTION }))));
  }),
  questions("of 1 KiB to 16 MiB", async (client) => {
    for (const bytes of [1024, MIB, 4 * MIB, 16 * MIB]) {
      await client.callTool("trick", { trick: "long_question", bytes });
    }
  }),
  questions("asked and withdrawn 2000 times", async (client) => {
    const params = (requestId: number): object => ({ params: { requestId, reason: "no" } });
    const lines = Array.from({ length: 2000 }, (_, id) => [
      { id, ...QUESTION },
      { method: "notifications/cancelled", ...params(id) },
    ]);
    await ask(client, { ...linesOf(lines.flat()), isDone: true });
  }),
  questions("with poisoned ids and members", async (client) => {
    const ids = [
      '"__proto__"',
      '"constructor"',
      '""',
      "-0",
      "1e400",
      "1.5",
      '"\\u0061"',
      `"${"k".repeat(900)}"`,
      '"a","id":"b"',
      "null",
      "[]",
    ];
    const members = [
      '"mode":"url","mode":"form"',
      '"_meta":[]',
      '"_meta":{"progressToken":1,"progressToken":2}',
      '"requestedSchema":null',
      '"task":{},"task":{}',
    ];
    const lines = ids.flatMap((id) =>
      members.map((each) => `{"jsonrpc":"2.0","id":${id},"method":"elicitation/create","params":{${each}}}`),
    );
    for (const line of lines) await ask(client, { lines: [line], isDone: true });
  }),
  questions("a state used by 20 other clients", async (client, others) => {
    const args = linesOf([{ id: "q", ...QUESTION }]);
    const asked = await ask(client, args);
    for (const sent of await Promise.all(others.map((other) => answer(other, args, asked?.requestState, { q: ANSWER })))) {
      const isRefused = sent === undefined || sent.body.includes("REQUEST_STATE_INVALID");
      if (!isRefused) client.attacker.replies.breaches.push(`the state of another client was valid: ${sent.body.slice(0, 100)}`);
    }
  }),
  questions("a state used 50 times at once", async (client) => {
    const args = linesOf([{ id: "q", ...QUESTION }]);
    const asked = await ask(client, args);
    const used = Array.from({ length: 50 }, () => answer(client, args, asked?.requestState, { other: ANSWER }));
    const valid = (await Promise.all(used)).filter((sent) => sent?.body.includes("REQUEST_STATE_INVALID") === false);
    if (valid.length > 1) client.attacker.replies.breaches.push(`a state was valid ${valid.length} times`);
  }),
  questions("2000 states that do not exist", async (client) => {
    for (const state of ["", "x".repeat(32), "x".repeat(MIB), 1, null, [], {}, { toString: 1 }]) await answer(client, {}, state, {});
    await Promise.all(Array.from({ length: 2000 }, (_, index) => answer(client, {}, `state-${index}`, { q: ANSWER })));
  }),
  questions("answers of 3 MiB, with 100,000 keys, and 10,000 levels deep", async (client) => {
    const args = linesOf([{ id: "q", ...QUESTION }]);
    const keys = Object.fromEntries(Array.from({ length: 100_000 }, (_, index) => [`k${index}`, ANSWER]));
    const deep = `${"[".repeat(10_000)}${"]".repeat(10_000)}`;
    for (const answers of [
      { q: { action: "accept", content: { text: "a".repeat(3 * MIB) } } },
      keys,
      JSON.parse(deep) as unknown,
      { q: null },
    ]) {
      const asked = await ask(client, args);
      await answer(client, args, asked?.requestState, answers);
    }
  }),
];
