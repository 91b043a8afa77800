// Events and states of other replicas, with parts that no replica writes.

import { setTimeout as sleep } from "node:timers/promises";
import { startRequest } from "../../../test/support/http-client.ts";
import { EventStreamParser } from "../../../test/support/event-stream-parser.ts";
import type { Attack } from "../../attack.ts";
import type { Attacker } from "../../attacker.ts";
import { within } from "../../bounded.ts";
import { expectNothingLeft } from "../../leftovers.ts";
import { issueId } from "../../session-forge.ts";
import { StatelessAttacker } from "../../stateless-attacker.ts";
import { addBreach, expectServed, forAll, KEY_ENVIRONMENT, pingRaw, session, SESSION_KEY } from "./not-found.ts";

const OTHER_REPLICA = "0badc0de";
const MAX_REQUEST_ID_CHARACTERS = 88;
const STREAMS = 300;
const STREAM_LIMIT_MS = 1000;
const CAPABILITIES = { elicitation: {}, sampling: {}, roots: {} };
const QUESTION = { method: "elicitation/create", params: { message: "?", requestedSchema: { type: "object", properties: {} } } };

/** JSON texts and others in place of the id of a request. */
const REQUEST_IDS: readonly string[] = [
  '"__proto__"',
  '"constructor"',
  '""',
  "0",
  "-0",
  "-1",
  "1.5",
  "1e400",
  "9007199254740993",
  "123456789012345678901234567890",
  "007",
  "0x10",
  "null",
  "true",
  "[]",
  "[1]",
  "{}",
  '{"a":1}',
  '"a","b":"c"',
  '1,"result":{}',
  '"a\r\nevent: x\r\ndata: y\r\n\r\n"',
  '"a\n\ndata: {}\n\n"',
  String.raw`"a\r\n\r\ndata: {}\r\n\r\n"`,
  '"\u2028\u2029"',
  '"\u0000"',
  String.raw`"\u0000"`,
  String.raw`"\ud800"`,
  '"\ufeff"',
  ' "a"',
  '"a" ',
  '"',
  '"a',
  "-",
  "NaN",
  "\u00ff",
  `"${"k".repeat(62)}"`,
  `"${"k".repeat(64)}"`,
  `"${"k".repeat(6000)}"`,
  "9".repeat(64),
  "[".repeat(64),
];

function eventIds(): string[] {
  const named = REQUEST_IDS.map((id) => `r1-1-${OTHER_REPLICA}-${Buffer.from(id).toString("base64url")}`);
  const one = Buffer.from("1").toString("base64url");
  const malformed = [
    `r1-1-${OTHER_REPLICA}-${Buffer.from([0x22, 0xff, 0xfe, 0x22]).toString("base64url")}`,
    `r1-1-${OTHER_REPLICA}-${"A".repeat(MAX_REQUEST_ID_CHARACTERS)}`,
    `r1-1-${OTHER_REPLICA}-`,
    `r1-1-${OTHER_REPLICA}-${one}=`,
    `r1-1-${OTHER_REPLICA}-${one}-${one}`,
    `r1-1-${OTHER_REPLICA.toUpperCase()}-${one}`,
    `r1-1--${one}`,
    `r-1--1-${OTHER_REPLICA}-${one}`,
    `r${"9".repeat(400)}-1-${OTHER_REPLICA}-${one}`,
    `r999999999999999-999999999999999-${OTHER_REPLICA}-${one}`,
    `r1-1-${OTHER_REPLICA}`,
    `x1-1-${OTHER_REPLICA}-${one}`,
    `r1-1-${OTHER_REPLICA}-${one}`.repeat(200),
    "__proto__",
    "",
    ",",
  ];
  return [...named, ...malformed];
}

/** Resumes the stream of a request. Its response must be one error, and no more events than that. */
async function resume(attacker: Attacker, lastEventId: string, sessionId: string): Promise<void> {
  const reply = await attacker.fetch("GET", { sessionId, headers: { "Last-Event-ID": lastEventId }, limitMs: STREAM_LIMIT_MS });
  // An event id that names no request opens a new stream, or is rejected.
  if (reply === undefined || reply.status === 400) return;
  if (reply.status !== 200) return addBreach(attacker, `${lastEventId}: ${reply.status} ${reply.body}`);
  const text = Buffer.from(lastEventId.split("-").slice(3).join("-"), "base64url").toString();
  try {
    const events = new EventStreamParser().push(Buffer.from(reply.body)).filter(({ data = "" }) => data !== "");
    const [message] = events.map(({ data = "" }) => JSON.parse(data) as { readonly id?: unknown; readonly error?: unknown });
    if (events.length === 1 && message?.error !== undefined && message.id === JSON.parse(text)) return;
  } catch {
    // The breach below shows the body.
  }
  addBreach(attacker, `${text}: ${reply.body}`);
}

/** Opens a stream in place of one of another replica. */
async function openInstead(attacker: Attacker, index: number): Promise<void> {
  const headers = {
    Accept: "text/event-stream",
    Authorization: `Bearer ${attacker.token}`,
    "Mcp-Session-Id": attacker.sessionId,
    "Last-Event-ID": `s${index}-${index}-${OTHER_REPLICA}`,
  };
  const { request, response } = startRequest(attacker.url, { method: "GET", headers, agent: false });
  request.on("error", () => undefined);
  const begun = await within(response, STREAM_LIMIT_MS).catch(() => undefined);
  begun?.on("error", () => undefined).resume();
  attacker.replies.add(begun === undefined ? "no response to a GET" : `${begun.statusCode} to a GET`);
  await sleep(STREAM_LIMIT_MS / 2);
  request.destroy();
}

/** Makes the server ask a client without a session. @returns the state of the question. */
async function stateOf(client: StatelessAttacker, args: object): Promise<string> {
  const sent = await client.callTool("trick", args);
  return /"requestState":"([^"]+)"/.exec(sent?.body ?? "")?.[1] ?? "";
}

/** Uses a state in a request that the attacker's question did not have. */
async function expectInvalidState(client: StatelessAttacker, state: string, args: object): Promise<void> {
  const { attacker } = client;
  if (state === "") addBreach(attacker, "no state to begin with");
  const altered = [state, `${state}A`, state.slice(0, -1), state.slice(1), state.toUpperCase(), `${OTHER_REPLICA}.${state.slice(9)}`];
  for (const each of altered) {
    const reply = await client.request("tools/call", { name: "trick", arguments: args, requestState: each, inputResponses: {} });
    if (reply?.body.includes("REQUEST_STATE_INVALID") !== true)
      addBreach(attacker, `a state of another replica: ${reply?.status} ${reply?.body}`);
  }
}

export const OTHER_REPLICA_ATTACKS: readonly Attack[] = [
  session(`${eventIds().length} event ids of other replicas, in a session here and in one of theirs`, async ({ attacker }) => {
    const foreign = issueId({ secret: SESSION_KEY, token: attacker.token });
    for (const sessionId of [attacker.sessionId, foreign]) await forAll(eventIds(), (id) => resume(attacker, id, sessionId), 20);
    for (const value of [`r1-1-${OTHER_REPLICA}-MQ\r\n x`, `r1-1-${OTHER_REPLICA}-MQ\0`, "\u00ff"]) {
      const reply = await pingRaw(attacker, [`Mcp-Session-Id: ${foreign}`, `Last-Event-ID: ${value}`]);
      if (reply === undefined || reply.status >= 500) addBreach(attacker, `${JSON.stringify(value)}: ${reply?.status} ${reply?.body}`);
    }
    await expectServed(attacker, "the sessions", [attacker.sessionId, foreign]);
    await expectNothingLeft(attacker);
  }),
  session(`${STREAMS} streams at once in place of those of other replicas`, async ({ attacker }) => {
    await Promise.all(Array.from({ length: STREAMS }, (_, index) => openInstead(attacker, index)));
    await expectNothingLeft(attacker);
  }),
  session("2,000 answers to questions of other replicas", async ({ attacker, countServers }) => {
    const ids = Array.from({ length: 2000 }, (_, index) => index);
    const answer = (id: string | number): object => ({ jsonrpc: "2.0", id, result: { action: "accept", content: {} } });
    await forAll(ids, async (index) => {
      const isPrivate = index % 2 === 0;
      const sessionId = issueId({ secret: SESSION_KEY, token: attacker.token }, isPrivate ? { capabilitiesText: '{"sampling":{}}' } : {});
      const reply = await attacker.post(answer(index % 3 === 0 ? index : `ask-${index}`), { sessionId });
      // A client that is never asked cannot answer, as in an ordinary session.
      if (reply?.status !== (isPrivate ? 409 : 202)) addBreach(attacker, `an answer: ${reply?.status} ${reply?.body}`);
    });
    if (countServers() > 1) addBreach(attacker, `answers started ${countServers() - 1} servers`);
    await expectNothingLeft(attacker);
  }),
  session(
    "states of parked calls of another replica",
    async ({ attacker, startReplica }) => {
      const replica = new StatelessAttacker((await startReplica())(), CAPABILITIES);
      const args = { trick: "ask", lines: [JSON.stringify({ jsonrpc: "2.0", id: "q", ...QUESTION })] };
      const state = await stateOf(replica, args);
      await expectInvalidState(new StatelessAttacker(attacker, CAPABILITIES), state, args);
      await expectNothingLeft(attacker);
    },
    { flags: ["--park-timeout-ms", "2000"] },
  ),
  session(
    "states of a server without sessions: of another server, key, client and tool",
    async ({ attacker, others, startReplica }) => {
      const args = { trick: "input", members: '"requestState":"of the server"' };
      const [other = attacker] = others;
      const setups = [
        { environment: { ...KEY_ENVIRONMENT, CLAW_MCP_STDIO_SERVER_NAME: "another" } },
        { environment: { CLAW_MCP_STDIO_SESSION_KEY: "another-session-key-0123456789-0123456789" } },
      ];
      for (const setup of setups) {
        const state = await stateOf(new StatelessAttacker((await startReplica(setup))(), CAPABILITIES), args);
        await expectInvalidState(new StatelessAttacker(attacker, CAPABILITIES), state, args);
      }
      const state = await stateOf(new StatelessAttacker((await startReplica())(other.token), CAPABILITIES), args);
      await expectInvalidState(new StatelessAttacker(attacker, CAPABILITIES), state, args);
    },
    { era: "modern", isStateless: true },
  ),
];
