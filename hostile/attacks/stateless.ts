// Requests without a session (MCP 2026-07-28) whose parts contradict each other, or that no client may send.

import { META, MODERN_VERSION } from "../../test/support/modern-client.ts";
import type { Attack, Scene } from "../attack.ts";
import { BYSTANDER_MARK, type ServerEra, SLOW_LIST_SWITCH, type ToolList } from "../contract.ts";
import { StatelessAttacker } from "../stateless-attacker.ts";

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
export function stateless(name: string, run: (client: StatelessAttacker, scene: Scene) => Promise<void>, options: Options = {}): Attack {
  return {
    name: `stateless: ${name}`,
    isStateless: true,
    ...options,
    run: (scene) => run(new StatelessAttacker(scene.attacker), scene),
  };
}

/** Sends a request that must be rejected before the server gets it. */
async function expectRejection(client: StatelessAttacker, what: string, sent: ReturnType<StatelessAttacker["raw"]>): Promise<void> {
  const reply = await sent;
  if (reply !== undefined && reply.status < 400) client.attacker.replies.breaches.push(`accepted ${what}: ${reply.body.slice(0, 100)}`);
}

const MISMATCHES: Readonly<Record<string, Readonly<Record<string, string | undefined>>>> = {
  "another name": { "Mcp-Name": "echo" },
  "no name": { "Mcp-Name": undefined },
  "an empty name": { "Mcp-Name": "" },
  "the name twice": { "Mcp-Name": "denied, denied" },
  "the name in other case": { "Mcp-Name": "DENIED" },
  "a name in base64 that is not canonical": { "Mcp-Name": "=?base64?ZGVuaWVk==?=" },
  "another method": { "Mcp-Method": "tools/list" },
  "no method": { "Mcp-Method": undefined },
  "a method in other case": { "Mcp-Method": "Tools/Call" },
  "another version": { "MCP-Protocol-Version": "2025-11-25" },
  "a version of the future": { "MCP-Protocol-Version": "2099-01-01" },
  "no version": { "MCP-Protocol-Version": undefined },
  "two versions": { "MCP-Protocol-Version": `${MODERN_VERSION}, 2025-11-25` },
};

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

export const STATELESS_ATTACKS: readonly Attack[] = [
  stateless(
    `${ROUNDS} calls of a denied tool with each of ${Object.keys(MISMATCHES).length} headers that contradict the body`,
    async (client) => {
      for (const [what, headers] of Object.entries(MISMATCHES)) {
        const calls = Array.from({ length: ROUNDS }, () => expectRejection(client, what, client.callTool("denied", {}, headers)));
        await Promise.all(calls);
      }
    },
    { flags: DENY },
  ),
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
          for (const text of [body, escaped, twice]) {
            await expectRejection(client, method, client.attacker.postAs(text, headers));
          }
          await expectRejection(client, method, client.request("tools/list", {}, { "Mcp-Method": method }));
        }
      },
      { era },
    ),
  ),
  stateless("cancellations of 20,000 ids of others", async (client) => {
    const ids = Array.from({ length: 10_000 }, (_, index) => [index, `call ${index}`]).flat();
    for (let start = 0; start < ids.length; start += ROUNDS) {
      await Promise.all(
        ids.slice(start, start + ROUNDS).map((requestId) => {
          const { body, headers } = client.client.compose("notifications/cancelled", { requestId }, { id: null });
          return client.attacker.postAs(body, headers);
        }),
      );
    }
  }),
  stateless(
    "the state of a question of others, changed and of 3 MiB",
    async (client, { others }) => {
      const ask = { name: "ask", arguments: { owner: "other" } };
      for (const other of others) {
        const reply = await new StatelessAttacker(other).request("tools/call", ask);
        const state = /"requestState":"([^"]*)"/.exec(reply?.body ?? "")?.[1] ?? "";
        const changed = [
          state,
          state.slice(1),
          `${state}AAAA`,
          state.toUpperCase(),
          "of attacker",
          "",
          "A".repeat(3 * MIB),
          1,
          null,
          [],
          {},
        ];
        for (const requestState of changed) {
          await client.request("tools/call", { name: "ask", arguments: { owner: "attacker" }, requestState });
        }
      }
    },
    { era: "dual" },
  ),
  ...["", String.raw`\u0061`].map((escape) =>
    stateless(`20 bodies of 4 MiB of ${escape === "" ? "" : "escaped "}members of _meta`, async (client) => {
      const members = metaMembers(4 * MIB - 1024, escape);
      const { body } = client.client.compose("tools/call", { name: "echo" });
      const long = body.replace('"_meta":{', () => `"_meta":{${members}`);
      await Promise.all(Array.from({ length: 20 }, () => client.raw(long)));
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
    await Promise.all(Array.from({ length: ROUNDS }, () => client.callTool(name, { p_0: "a", p_4: "b" }, headers)));
  }
}
