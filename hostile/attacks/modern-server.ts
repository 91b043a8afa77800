// A server without sessions (MCP 2026-07-28) and clients with sessions: questions, subscriptions and results that no honest server has.

import { ASKABLE } from "../../test/support/mcp-client.ts";
import { type Attacker, times, within } from "../attacker.ts";
import type { Attack, Scene } from "../stage.ts";

const MIB = 1024 * 1024;
/** Rounds without questions end with the request, and no question is open for longer than ten times this. */
const FLAGS = ["--request-timeout-ms", "2000"];
/** The time for which a client waits for a call that asks. */
const LEAVE_MS = 1000;
const ANSWERED_LIMIT_MS = 5000;
const QUESTION = '{"method":"elicitation/create","params":{"message":"?","requestedSchema":{"type":"object","properties":{}}}}';
const ONE_QUESTION = `"requestState":"s","inputRequests":{"q":${QUESTION}}`;
const ACCEPTED = '"result":{"action":"accept","content":{}}';

/** Returns an attack by a client that declares all questions. Afterwards its session ends, and nothing of it may be left. */
function modernServer(name: string, run: (client: Attacker, scene: Scene) => Promise<unknown>, setup: Partial<Attack> = {}): Attack {
  return {
    name: `modern server: ${name}`,
    era: "modern",
    flags: FLAGS,
    ...setup,
    run: async (scene) => {
      const { attacker } = scene;
      await attacker.open("2025-11-25", ASKABLE);
      await run(attacker, scene);
      await attacker.end();
      await attacker.expectNothingLeft();
    },
  };
}

/** Makes the server ask. The client waits for the result for a short time. */
function ask(client: Attacker, members: string, { isEndless = false, limitMs = LEAVE_MS } = {}): Promise<unknown> {
  return client.callTool("trick", { trick: "input", members, isEndless }, { limitMs });
}

/** Makes the server ask, and posts these members of a response for each question. */
async function askAndAnswer(client: Attacker, member: string, isEndless = false): Promise<void> {
  const stream = await client.begin("trick", { trick: "input", members: ONE_QUESTION, isEndless });
  for (;;) {
    const text = await within(stream?.nextText() ?? Promise.resolve(undefined), ANSWERED_LIMIT_MS);
    if (text === undefined) return client.replies.add("no answer");
    const { id, method } = JSON.parse(text) as { readonly id?: number; readonly method?: string };
    if (method === undefined) return client.replies.addReply(stream?.status ?? 0, text);
    if (id === undefined) continue;
    await client.post(`{"jsonrpc":"2.0","id":${id},${member}}`);
  }
}

const POISONED_MEMBERS: readonly string[] = [
  '"inputRequests":null,"requestState":null',
  String.raw`"inputRequests":{"q":${QUESTION}},"input\u0052equests":{}`,
  String.raw`"inputRequests":{"q":${QUESTION},"\u0071":${QUESTION}}`,
  `"inputRequests":{"__proto__":${QUESTION},"constructor":${QUESTION},"":${QUESTION}}`,
  '"inputRequests":{"q":{"method":"tools/call","params":{"name":"denied"}}}',
  '"inputRequests":{"q":{"method":"elicitation/create","method":"roots/list","params":{}}}',
  `"inputRequests":{"q":${"[".repeat(20_000)}${"]".repeat(20_000)}}`,
  `"inputRequests":{"q":{"method":"roots/list","params":{"a":${'{"a":'.repeat(20_000)}1${"}".repeat(20_000)}}}}`,
  `"inputRequests":{${Array.from({ length: 10_000 }, (_, index) => `"q${index}":${QUESTION}`).join(",")}}`,
];

const ANSWERS: readonly string[] = [
  `"error":{"code":1,"message":"${"m".repeat(MIB)}"}`,
  `"result":{"action":"accept","content":{"text":"${"a".repeat(3 * MIB)}"}}`,
  `"result":{"a":${"[".repeat(10_000)}${"]".repeat(10_000)}}`,
  String.raw`"re\u0073ult":{"action":"accept"},"result":{"action":"cancel"}`,
];

export const MODERN_SERVER_ATTACKS: readonly Attack[] = [
  modernServer("20 clients with 50 calls each that ask, and break their connections", async (_client, { others }) => {
    await Promise.all(
      others.map(async (other) => {
        await other.open("2025-11-25", ASKABLE);
        await times(50, () => ask(other, ONE_QUESTION));
        await other.end();
      }),
    );
  }),
  modernServer("members of questions that are repeated, escaped, deep, or of another form", async (client) => {
    for (const members of POISONED_MEMBERS) await ask(client, members, { limitMs: 300 });
  }),
  modernServer("questions and states of 1 to 16 MiB", async (client) => {
    for (const bytes of [MIB, 4 * MIB, 16 * MIB]) {
      const head = '{"jsonrpc":"2.0","id":OWN,"result":{"resultType":"input_required",';
      const question = '"inputRequests":{"q":{"method":"elicitation/create","params":{"requestedSchema":{},"message":"';
      const repeat = { trick: "repeat", piece: "q", bytes };
      await client.callTool("trick", { ...repeat, before: head + question, after: '"}}}}}' }, { limitMs: LEAVE_MS });
      await client.callTool("trick", { ...repeat, before: `${head}"requestState":"`, after: '"}}' }, { limitMs: LEAVE_MS });
    }
  }),
  modernServer("50 calls whose server asks nothing again and again", async (client) => {
    await times(50, () => ask(client, '"requestState":"s"', { isEndless: true, limitMs: 10_000 }));
  }),
  modernServer("40 calls whose server asks again after each answer", (client) => times(40, () => askAndAnswer(client, ACCEPTED, true))),
  modernServer("answers with other, repeated, escaped, long and deep members", async (client) => {
    for (const answer of ANSWERS) await askAndAnswer(client, answer);
  }),
  modernServer("notifications with the ids of other requests", async (client) => {
    await client.request("resources/subscribe", { uri: "file:///forged" });
    await client.callTool("trick", { trick: "forge", count: 1000 });
  }),
  modernServer(
    "100,000 updates for a stream that is not read",
    async (client) => {
      await client.request("resources/subscribe", { uri: "x://flood" });
      await client.writeUnread(client.streamHead());
      await client.callTool("trick", { trick: "flood", uri: "x://flood", count: 50_000, padding: 1000 });
    },
    // The server needs more than two seconds to write them on a busy machine.
    { flags: [] },
  ),
  ...(["many-tools", "large-tool", "deep-schema", "poisoned-schema"] as const).map((tools) =>
    modernServer(`a list of ${tools}`, (client) => client.request("tools/list", {}), { tools }),
  ),
];
