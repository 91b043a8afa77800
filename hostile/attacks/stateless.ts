// Requests, subscriptions and questions without a session (MCP 2026-07-28), in numbers and forms that no honest client has.

import { ASKABLE } from "../../test/support/mcp-client.ts";
import { StatelessAttacker, times } from "../attacker.ts";
import { BYSTANDER_MARK, type ServerEra, SLOW_LIST_SWITCH } from "../contract.ts";
import type { Attack, Scene } from "../stage.ts";

const MIB = 1024 * 1024;
const LIST_CHANGED = '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}';

type Run = (client: StatelessAttacker, scene: Scene) => Promise<unknown>;

/** Returns an attack whose bystander has no session either. */
function stateless(name: string, run: Run, setup: Partial<Attack> = {}): Attack {
  return { name: `stateless: ${name}`, isStateless: true, ...setup, run: (scene) => run(new StatelessAttacker(scene.attacker), scene) };
}

/** Names that are removed and kept in turn. */
function metaMembers(bytes: number, escape: string): string {
  const pair = (index: number): string => `"io.modelcontextprotocol/${escape}${index}":1,"${escape}${index}":2,`;
  let members = "";
  for (let index = 0; members.length < bytes; index++) members += pair(index);
  return members;
}

/** Calls with headers that contradict the arguments. @param act begins with them. */
function paramFlood(name: string, act: Run): Attack {
  const headers = Object.fromEntries(Array.from({ length: 5 }, (_, index) => [`Mcp-Param-P${index}`, BYSTANDER_MARK.toUpperCase()]));
  const run: Run = async (client, scene) => {
    const acting = act(client, scene);
    for (let round = 0; round < 5; round++) await times(200, () => client.callTool("tool_1", { p_0: "a", p_4: "b" }, headers));
    await acting;
  };
  return stateless(`a flood of contradicting Mcp-Param headers, 10,000 tools with five of them each, ${name}`, run, {
    tools: "header-tools",
  });
}

const REQUESTS: readonly Attack[] = [
  ...["", String.raw`\u0061`].map((escape) =>
    stateless(`20 bodies of 4 MiB of ${escape === "" ? "" : "escaped "}members of _meta`, async ({ client, attacker }) => {
      const members = metaMembers(4 * MIB - 1024, escape);
      const { body, headers } = client.compose("tools/call", { name: "echo" });
      const long = body.replace('"_meta":{', () => `"_meta":{${members}`);
      await times(20, () => attacker.postAs(long, headers));
    }),
  ),
  paramFlood("tools/list takes a second", async (_client, { setSwitch }) => setSwitch(SLOW_LIST_SWITCH, "1000")),
  paramFlood("tools/list is never answered", async (_client, { setSwitch }) => setSwitch(SLOW_LIST_SWITCH, "never")),
  paramFlood("100,000 lines tools/list_changed", (client) =>
    client.callTool("trick", { trick: "tiny", line: LIST_CHANGED, count: 100_000 }),
  ),
];

/** The most that one client may have. */
const MOST = 256;
const EVERYTHING = {
  toolsListChanged: true,
  promptsListChanged: true,
  resourcesListChanged: true,
  resourceSubscriptions: ["file:///flood"],
};
const FLOOD = { trick: "flood", uri: "file:///flood", count: 2000, padding: 2000 };

/** Returns an attack whose subscriptions end with it, and of which nothing may be left. */
function listens(name: string, era: ServerEra, run: Run, flags: readonly string[] = []): Attack {
  const all: Run = async (client, scene) => {
    await run(client, scene);
    client.endListens();
    await client.attacker.expectNothingLeft();
  };
  return stateless(`${name}, ${era} server`, all, { era, flags });
}

function uris(count: number, length: number): string[] {
  return Array.from({ length: count }, (_, index) => `${index}${"u".repeat(length)}`);
}

/** The numbers of resources, and the lengths of their URIs. */
const FILTERS = [
  [1, 200_000],
  [1000, 200],
  [30_000, 1],
  [300_000, 5],
  [1, 4_000_000],
] as const;

const LISTENS: readonly Attack[] = (["legacy", "dual"] as const).flatMap((era) => [
  // They all connect before the first of them has sent its token.
  listens("3000 subscriptions of one client at once", era, (client) => client.listen(3000, EVERYTHING), [
    "--max-connections-without-token",
    "4096",
  ]),
  listens("3000 subscriptions of one client, opened and closed in turn", era, async (client) => {
    for (let round = 0; round < 30; round++) {
      const opening = client.listen(100, EVERYTHING);
      if (round % 2 === 0) await opening;
      client.endListens();
      await opening;
    }
  }),
  listens(`${MOST} subscriptions that are not read, of 4 MB each`, era, async (client) => {
    await client.listen(MOST, EVERYTHING);
    await client.callTool("trick", era === "legacy" ? FLOOD : { trick: "forge", count: 5000 });
  }),
  listens("filters of 1 to 300,000 resources, of 256 KiB and of 4 MiB", era, async (client) => {
    for (const [count, length] of FILTERS) await client.listen(1, { toolsListChanged: true, resourceSubscriptions: uris(count, length) });
  }),
  listens(`21 clients with ${MOST} subscriptions each, and 1000 changes of the tools`, era, async (client, scene) => {
    const clients = [client, ...scene.others.map((other) => new StatelessAttacker(other))];
    for (const each of clients) await each.listen(MOST, { toolsListChanged: true }, { isRead: true });
    // On a server without sessions, these have the ids of other requests.
    await client.callTool("trick", era === "legacy" ? { trick: "tiny", line: LIST_CHANGED, count: 1000 } : { trick: "forge", count: 1000 });
    for (const each of clients) each.endListens();
  }),
]);

/** Calls end soon after the attack. */
const FLAGS = ["--park-timeout-ms", "2000", "--max-private-servers", "8", "--request-timeout-ms", "5000"];
const QUESTION = { method: "elicitation/create", params: { message: "?", requestedSchema: { type: "object", properties: {} } } };
const ANSWER = { action: "accept", content: {} };

interface Asked {
  readonly result?: { readonly resultType?: string; readonly requestState?: string };
}

/** Returns an attack by a client that declares all questions. */
function questions(name: string, run: (client: StatelessAttacker, others: readonly StatelessAttacker[]) => Promise<unknown>): Attack {
  return stateless(
    `questions: ${name}`,
    async ({ attacker }, { others }) => {
      const client = new StatelessAttacker(attacker, ASKABLE);
      await run(
        client,
        others.map((other) => new StatelessAttacker(other, ASKABLE)),
      );
      await attacker.expectNothingLeft();
    },
    { flags: FLAGS },
  );
}

/** Makes the server ask. @returns the state of the result that asks the client; undefined for any other response. */
async function ask(client: StatelessAttacker, args: object): Promise<string | undefined> {
  const sent = await client.callTool("trick", { trick: "ask", ...args });
  const result = sent === undefined ? undefined : (JSON.parse(sent.body.slice(sent.body.indexOf("{"))) as Asked).result;
  return result?.resultType === "input_required" ? result.requestState : undefined;
}

/** Sends the request that answers. */
function answer(client: StatelessAttacker, args: object, requestState: unknown, inputResponses: unknown) {
  return client.request("tools/call", { name: "trick", arguments: { trick: "ask", ...args }, requestState, inputResponses });
}

function linesOf(...lines: readonly object[]): { readonly lines: readonly string[] } {
  return { lines: lines.map((line) => JSON.stringify({ jsonrpc: "2.0", ...line })) };
}

const ONE = linesOf({ id: "q", ...QUESTION });

const QUESTIONS: readonly Attack[] = [
  questions("40 calls in turn and 200 at once of 21 clients that never answer", async (client, others) => {
    for (let index = 0; index < 40; index++) await ask(client, { ...ONE, isDone: true });
    await Promise.all([client, ...others].map((each) => ask(each, ONE)));
    await times(200, () => ask(client, ONE));
  }),
  questions("10,000 questions in one call, and 2000 that are withdrawn", async (client) => {
    await ask(client, linesOf(...Array.from({ length: 10_000 }, (_, index) => ({ id: index, ...QUESTION }))));
    const withdrawn = Array.from({ length: 2000 }, (_, id) => [
      { id, ...QUESTION },
      { method: "notifications/cancelled", params: { requestId: id, reason: "no" } },
    ]);
    await ask(client, { ...linesOf(...withdrawn.flat()), isDone: true });
  }),
  questions("of 1 KiB to 16 MiB", async (client) => {
    const before = '{"jsonrpc":"2.0","id":"long","method":"elicitation/create","params":{"requestedSchema":{},"message":"';
    for (const bytes of [1024, MIB, 4 * MIB, 16 * MIB]) {
      await client.callTool("trick", { trick: "repeat", before, piece: "x", after: '"}}', bytes });
    }
  }),
  questions("answers of 3 MiB, with 100,000 keys, and 10,000 levels deep", async (client) => {
    const keys = Object.fromEntries(Array.from({ length: 100_000 }, (_, index) => [`k${index}`, ANSWER]));
    const deep = JSON.parse(`${"[".repeat(10_000)}${"]".repeat(10_000)}`) as unknown;
    const long = { q: { action: "accept", content: { text: "a".repeat(3 * MIB) } } };
    for (const answers of [long, keys, deep, { q: null }]) await answer(client, ONE, await ask(client, ONE), answers);
  }),
];

export const STATELESS_ATTACKS: readonly Attack[] = [...REQUESTS, ...LISTENS, ...QUESTIONS];
