// Requests, subscriptions and questions without a session (MCP 2026-07-28): contradicting, or in numbers and forms that no honest client has.

import { META, MODERN_VERSION } from "../../test/support/modern-client.ts";
import { forAll, StatelessAttacker, times } from "../attacker.ts";
import { BYSTANDER_MARK, type ServerEra, SLOW_LIST_SWITCH, type ToolList } from "../contract.ts";
import type { Attack, Scene } from "../stage.ts";

const ROUNDS = 200;
const MIB = 1024 * 1024;
const DENY = ["--deny-tools", "denied"];
const ENVELOPE = { [META.protocolVersion]: MODERN_VERSION, [META.clientCapabilities]: {} };

interface Options {
  readonly flags?: readonly string[];
  readonly tools?: ToolList;
  readonly era?: ServerEra;
}

/** Returns an attack whose bystander has no session either. */
function stateless(name: string, run: (client: StatelessAttacker, scene: Scene) => Promise<unknown>, options: Options = {}): Attack {
  return {
    name: `stateless: ${name}`,
    isStateless: true,
    ...options,
    run: (scene) => run(new StatelessAttacker(scene.attacker), scene),
  };
}

/** Each of these is a call of the denied tool, whose era is not clear. */
function confusions(
  sessionId: string,
): readonly { readonly body: unknown; readonly headers: Readonly<Record<string, string | undefined>> }[] {
  const call = (meta?: object): object => ({ jsonrpc: "2.0", id: 1, method: "tools/call", params: { name: "denied", ...meta } });
  const modern = call({ _meta: ENVELOPE });
  const legacyHeader = { "MCP-Protocol-Version": "2025-11-25", "Mcp-Session-Id": sessionId };
  const older = { ...legacyHeader, "MCP-Protocol-Version": "2025-03-26" };
  return [
    { body: modern, headers: legacyHeader },
    { body: modern, headers: { ...legacyHeader, "Mcp-Name": "denied" } },
    { body: call(), headers: { "Mcp-Name": "denied" } },
    { body: call(), headers: { "Mcp-Name": "denied", "Mcp-Session-Id": sessionId } },
    { body: call({ _meta: { [META.protocolVersion]: "2025-11-25" } }), headers: { "Mcp-Name": "denied" } },
    { body: call({ _meta: { [META.protocolVersion]: 20_260_728 } }), headers: legacyHeader },
    { body: [modern, call()], headers: older },
    { body: [call(), modern], headers: { "Mcp-Name": "denied" } },
    { body: [modern, modern], headers: { ...older, "Mcp-Name": "denied" } },
    { body: `{"_meta":1,${JSON.stringify(modern).slice(1)}`, headers: legacyHeader },
    { body: JSON.stringify(modern).replace('"denied"', '"echo","name":"denied"'), headers: {} },
    { body: JSON.stringify(modern).replace('"name"', String.raw`"n\u0061me"`), headers: { "Mcp-Name": "echo" } },
    { body: JSON.stringify(modern).replace('"name":"denied"', '"name":"echo","Name":"denied"'), headers: {} },
  ];
}

const REMOVED = [
  "initialize",
  "ping",
  "logging/setLevel",
  "resources/subscribe",
  "resources/unsubscribe",
  "tasks/list",
  "tasks/result",
  "notifications/initialized",
] as const;

/** Long texts of `_meta`, with names that are removed and kept in turn. */
function metaMembers(bytes: number, escape: string): string {
  const pair = (index: number): string => `"io.modelcontextprotocol/${escape}${index}":1,"${escape}${index}":2,`;
  let members = "";
  for (let index = 0; members.length < bytes; index++) members += pair(index);
  return members;
}

const REQUESTS: readonly Attack[] = [
  ...(["legacy", "dual"] as const).map((era) =>
    stateless(
      `calls of a denied tool whose body and headers have different eras, also in batches, ${era} server`,
      async (client, { attacker }) => {
        await attacker.open();
        for (let round = 0; round < ROUNDS / 10; round++) {
          for (const { body, headers } of confusions(attacker.sessionId)) {
            await client.raw(typeof body === "string" ? body : JSON.stringify(body), headers);
          }
        }
      },
      { flags: DENY, era },
    ),
  ),
  ...(["legacy", "dual"] as const).map((era) =>
    stateless(
      `removed methods, plain, escaped and in another member, ${era} server`,
      async (client) => {
        for (const method of REMOVED) {
          const params = { level: "debug", uri: "file:///x", protocolVersion: "2025-11-25", capabilities: {}, taskId: "1" };
          const { body, headers } = client.client.compose(method, params);
          const escaped = body.replace(method, `${String.raw`\u00`}${method.charCodeAt(0).toString(16)}${method.slice(1)}`);
          const twice = body.replace('"method"', '"method":"tools/list","method"');
          const sent = [body, escaped, twice].map((text) => client.attacker.postAs(text, headers));
          for (const reply of await Promise.all([...sent, client.request("tools/list", {}, { "Mcp-Method": method })])) {
            if (reply !== undefined && reply.status < 400) client.attacker.addBreach(`accepted ${method}: ${reply.body}`);
          }
        }
      },
      { era },
    ),
  ),
  stateless("cancellations of 20,000 ids of others", async (client) => {
    const ids = Array.from({ length: 10_000 }, (_, index) => [index, `call ${index}`]).flat();
    const cancel = (requestId: string | number): Promise<unknown> => {
      const { body, headers } = client.client.compose("notifications/cancelled", { requestId }, { id: null });
      return client.attacker.postAs(body, headers);
    };
    await forAll(ids, cancel, ROUNDS);
  }),
  ...["", String.raw`\u0061`].map((escape) =>
    stateless(`20 bodies of 4 MiB of ${escape === "" ? "" : "escaped "}members of _meta`, async (client) => {
      const members = metaMembers(4 * MIB - 1024, escape);
      const { body } = client.client.compose("tools/call", { name: "echo" });
      const long = body.replace('"_meta":{', () => `"_meta":{${members}`);
      await times(20, () => client.raw(long));
    }),
  ),
  stateless("a flood of contradicting Mcp-Param headers, 10,000 tools with five of them each", (client) => floodParams(client, "tool_1"), {
    tools: "header-tools",
  }),
  stateless(
    "a flood of contradicting Mcp-Param headers, tools/list takes a second",
    async (client, { setSwitch }) => {
      setSwitch(SLOW_LIST_SWITCH, "1000");
      await floodParams(client, "tool_1");
    },
    { tools: "header-tools" },
  ),
  stateless(
    "a flood of contradicting Mcp-Param headers, tools/list is never answered",
    async (client, { setSwitch }) => {
      setSwitch(SLOW_LIST_SWITCH, "never");
      await floodParams(client, "tool_1");
    },
    { tools: "header-tools" },
  ),
  stateless(
    "100,000 lines tools/list_changed during calls with Mcp-Param headers",
    async (client) => {
      const line = '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}';
      await Promise.all([client.callTool("trick", { trick: "tiny", line, count: 100_000 }), floodParams(client, "tool_1")]);
    },
    { tools: "header-tools" },
  ),
];

async function floodParams(client: StatelessAttacker, name: string): Promise<void> {
  const headers = Object.fromEntries(Array.from({ length: 5 }, (_, index) => [`Mcp-Param-P${index}`, BYSTANDER_MARK.toUpperCase()]));
  for (let round = 0; round < 5; round++) {
    await times(ROUNDS, () => client.callTool(name, { p_0: "a", p_4: "b" }, headers));
  }
}

/** The most that one client may have. */
const MOST = 256;
const ERAS = ["legacy", "dual"] as const;
const EVERYTHING = {
  toolsListChanged: true,
  promptsListChanged: true,
  resourcesListChanged: true,
  resourceSubscriptions: ["file:///flood"],
};
const FLOOD = { trick: "flood", uri: "file:///flood", count: 2000, padding: 2000 };
const LIST_CHANGED = '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}';

/** Returns an attack whose subscriptions end with it, and of which nothing may be left. */
function listens(
  name: string,
  era: ServerEra,
  run: (client: StatelessAttacker, scene: Scene) => Promise<unknown>,
  flags: readonly string[] = [],
): Attack {
  const all = async (client: StatelessAttacker, scene: Scene): Promise<void> => {
    await run(client, scene);
    client.endListens();
    await client.attacker.expectNothingLeft();
  };
  return stateless(`${name}, ${era} server`, all, { era, flags });
}

function uris(count: number, length: number): string[] {
  return Array.from({ length: count }, (_, index) => `${index}${"u".repeat(length)}`);
}

const LISTENS: readonly Attack[] = ERAS.flatMap((era) => [
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
  listens("filters of 1 to 30,000 resources, of 256 KiB and of 4 MiB", era, async (client) => {
    for (const [count, length] of [
      [1, 200_000],
      [1000, 200],
      [30_000, 1],
      [30_000, 1],
      [300_000, 5],
      [1, 4_000_000],
    ] as const) {
      await client.listen(1, { toolsListChanged: true, resourceSubscriptions: uris(count, length) });
    }
    await client.listen(1, { toolsListChanged: 1, resourceSubscriptions: { length: 5 } });
    await client.listen(1, { resourceSubscriptions: Array.from({ length: 20_000 }, () => "file:///same") });
  }),
  listens(`${MOST} filters of 2000 resources at once`, era, async (client) => {
    await client.listen(MOST, { resourceSubscriptions: uris(2000, 100) });
  }),
  listens("300 filters of 1000 resources at once, each closed and opened again", era, async (client) => {
    for (let round = 0; round < 3; round++) {
      await client.listen(300, { toolsListChanged: true, resourceSubscriptions: uris(1000, 20) }, { isRead: true });
      client.endListens();
    }
  }),
  listens(`21 clients with ${MOST} subscriptions each, and 1000 changes of the tools`, era, async (client, scene) => {
    const clients = [client, ...scene.others.map((other) => new StatelessAttacker(other))];
    for (const each of clients) await each.listen(MOST, { toolsListChanged: true }, { isRead: true });
    await client.callTool("trick", era === "legacy" ? { trick: "tiny", line: LIST_CHANGED, count: 1000 } : { trick: "forge", count: 1000 });
    for (const each of clients) each.endListens();
  }),
  listens(
    // A server with sessions has no ids of subscriptions, so each client gets all of these.
    `${era === "legacy" ? "1600" : "40,000"} notifications of the server with ids of other requests`,
    era,
    async (client) => {
      await client.listen(MOST, { toolsListChanged: true }, { isRead: true });
      await client.callTool("trick", { trick: "forge", count: era === "legacy" ? 100 : 2500 });
    },
  ),
]);

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
function questions(name: string, run: (client: StatelessAttacker, others: readonly StatelessAttacker[]) => Promise<unknown>): Attack {
  return stateless(
    `questions: ${name}`,
    async ({ attacker }, { others }) => {
      const client = new StatelessAttacker(attacker, CAPABILITIES);
      await run(
        client,
        others.map((other) => new StatelessAttacker(other, CAPABILITIES)),
      );
      await client.attacker.expectNothingLeft();
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

const QUESTIONS: readonly Attack[] = [
  questions("40 calls in turn and 200 at once that ask, and a client that never answers", async (client) => {
    for (let index = 0; index < 40; index++) await ask(client, { ...linesOf([{ id: `q${index}`, ...QUESTION }]), isDone: true });
    await times(200, (index) => ask(client, linesOf([{ id: `q${index}`, ...QUESTION }])));
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
  questions("a state used 50 times at once", async (client) => {
    const args = linesOf([{ id: "q", ...QUESTION }]);
    const asked = await ask(client, args);
    const used = await times(50, () => answer(client, args, asked?.requestState, { other: ANSWER }));
    const valid = used.filter((sent) => sent?.body.includes("REQUEST_STATE_INVALID") === false);
    if (valid.length > 1) client.attacker.addBreach(`a state was valid ${valid.length} times`);
  }),
  questions("2000 states that do not exist", async (client) => {
    for (const state of ["", "x".repeat(32), "x".repeat(MIB), 1, null, [], {}, { toString: 1 }]) await answer(client, {}, state, {});
    await times(2000, (index) => answer(client, {}, `state-${index}`, { q: ANSWER }));
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

export const STATELESS_ATTACKS: readonly Attack[] = [...REQUESTS, ...LISTENS, ...QUESTIONS];
