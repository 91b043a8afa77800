// Sessions of other replicas: ids that no replica has issued, and valid ones in numbers and at times that no honest client has.

import { createHmac, hash, randomBytes, randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { deriveKey } from "../../src/sessions/ids/derived-keys.ts";
import { encodeClaims, NONCE_BYTES, type SessionClaims } from "../../src/sessions/ids/session-claims.ts";
import { EventStreamParser } from "../../test/support/event-stream-parser.ts";
import type { HttpReply } from "../../test/support/http-client.ts";
import { type Attacker, forAll, times } from "../attacker.ts";
import type { Attack, Scene } from "../stage.ts";

const SESSION_KEY = "hostile-session-key-0123456789-0123456789";
const OTHER_KEY = "another-session-key-0123456789-0123456789";
const PING = { jsonrpc: "2.0", id: "p", method: "ping" };
const ASKS = '{"sampling":{},"elicitation":{},"roots":{}}';
const MAX_PRIVATE_SERVERS = 4;
/** A server that must make place ends within this time, while its successor starts. */
const ENDING_SERVERS = MAX_PRIVATE_SERVERS;
const SHARED_SERVERS = 1;
const MAX_SESSIONS = 500;
const COUNT_INTERVAL_MS = 25;
const BUDGET_BYTES = 64 * 1024 * 1024;
const OTHER_REPLICA = "0badc0de";
const MAX_REQUEST_ID_CHARACTERS = 88;
const STREAMS = 300;
const STREAM_LIMIT_MS = 1000;

interface Signer {
  /** SESSION_KEY, or the token if the sidecar has none. */
  readonly secret: string;
  /** The token of the client that the id is for. */
  readonly token: string;
}

/** The default of SERVER_NAME. */
const SERVER_NAME = "mcp";

/** Returns an id like one of a replica. Claims may be replaced by others. */
function issueId(signer: Signer, claims: Partial<SessionClaims> = {}): string {
  const issuedAtS = Math.floor(Date.now() / 1000);
  const usual = { protocolVersion: "2025-11-25", issuedAtS, capabilitiesText: "{}", clientInfoText: '{"name":"a","version":"1"}' };
  return signId(signer, encodeClaims({ ...usual, ...claims }, randomBytes(NONCE_BYTES)));
}

/** Returns an id with any bytes as claims, and the right signature. */
function signId({ secret, token }: Signer, claims: Uint8Array): string {
  const fingerprint = hash("sha256", `claw-mcp-stdio principal ${token}`, "base64url");
  const mac = createHmac("sha256", deriveKey(secret, "session id", SERVER_NAME))
    .update(`${fingerprint}.`)
    .update(claims)
    .digest();
  return Buffer.concat([claims, mac]).toString("base64url");
}

function session(name: string, run: (scene: Scene) => Promise<unknown>, setup: Partial<Attack> = {}): Attack {
  return { name: `session: ${name}`, environment: { CLAW_MCP_STDIO_SESSION_KEY: SESSION_KEY }, ...setup, run };
}

/** Sends requests with these ids. Any response that differs from the one to an unknown id is a missed bar. */
async function expectNotFound(attacker: Attacker, what: string, ids: readonly string[]): Promise<void> {
  const unknown = await attacker.quietly(PING, { sessionId: randomUUID() });
  await forAll(ids, async (sessionId) => {
    const reply = await attacker.post(PING, { sessionId });
    if (unknown?.status === 404 && reply?.status === 404 && reply.body === unknown.body) return;
    attacker.addBreach(`${what}: ${sessionId}: ${reply?.status} ${reply?.body}, not ${unknown?.status} ${unknown?.body}`);
  });
}

/** Calls a tool with these ids. Any response that is not its result is a missed bar. */
async function expectServed(attacker: Attacker, what: string, ids: readonly string[]): Promise<void> {
  await forAll(ids, async (sessionId) => {
    const reply = await attacker.callTool("echo", { text: "of the attacker" }, { sessionId });
    if (reply?.status !== 200 || !reply.body.includes('"text":"of the attacker"'))
      attacker.addBreach(`${what} not served: ${sessionId}: ${reply?.status} ${reply?.body}`);
  });
}

/** Sends a ping with header fields that HTTP clients would not send. */
function pingRaw(attacker: Attacker, fields: readonly string[]): Promise<HttpReply | undefined> {
  const body = JSON.stringify(PING);
  const head = attacker.head([...fields, `Content-Length: ${body.length}`, "Connection: close"], { sessionId: "" });
  return attacker.writeRaw(Buffer.from(head + body, "latin1"));
}

/** Texts that are not one JSON object. Some of them make one of the text around them. */
const NOT_OBJECTS: readonly string[] = [
  "1",
  "null",
  "[]",
  '"x"',
  "{",
  "}",
  "{}{}",
  "[".repeat(300),
  "\0",
  "\n",
  "\u00ff".repeat(100),
  '{}},"x":{"y":1',
  '{},"protocolVersion":"2024-11-05"',
  '{}},"method":"tools/call","x":{"y":1',
  '{}}}\n{"jsonrpc":"2.0"}',
];

const EXIT = '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"exit"}}';

/** Texts that an `initialize` can have, although no honest client does. A server must not read a part of one as a message. */
const ODD_JSON: readonly string[] = [
  ...["\n", "\r\n", "\r", " \n "].map((end) => `{"sampling":{},"x":${end}${EXIT}${end}}`),
  '{"sampling":{},"sampling":{}}',
  `${'{"a":'.repeat(40)}1${"}".repeat(40)}`,
];

function withTexts(signer: Signer, texts: readonly string[]): string[] {
  return texts.flatMap((text) => [issueId(signer, { capabilitiesText: text }), issueId(signer, { clientInfoText: text })]);
}

/** Signed bytes that are not claims of a revision of MCP with sessions. */
function notClaims(signer: Signer): string[] {
  const issuedAtS = Math.floor(Date.now() / 1000);
  const claims = { issuedAtS, protocolVersion: "2025-11-25", capabilitiesText: "??", clientInfoText: "" };
  const capabilitiesTooLong = encodeClaims(claims, randomBytes(NONCE_BYTES)).subarray(0, -1);
  const bytes = [capabilitiesTooLong, Buffer.alloc(0), Buffer.alloc(1, 1), Buffer.alloc(23), Buffer.alloc(300, 0xff)];
  const versions = ["2026-07-28", "1999-01-01", "0", "4294967295"];
  return [...versions.map((protocolVersion) => issueId(signer, { protocolVersion })), ...bytes.map((each) => signId(signer, each))];
}

const FORGED: readonly Attack[] = [
  session("two Mcp-Session-Id headers", async ({ attacker, startReplica }) => {
    const replica = await startReplica();
    await attacker.open();
    await replica.open();
    const ids = [attacker.sessionId, replica.sessionId, issueId({ secret: OTHER_KEY, token: attacker.token }), ""];
    for (const pair of ids.flatMap((first) => ids.map((second) => [first, second]))) {
      const fields = pair.map((id) => `Mcp-Session-Id: ${id}`);
      const reply = await pingRaw(attacker, fields);
      if (reply === undefined || reply.status >= 500 || reply.status < 400) attacker.addBreach(`two ids: ${reply?.status} ${reply?.body}`);
    }
  }),
  session(
    "ids that a client signs with its own token",
    async ({ attacker, others }) => {
      const signer = { secret: attacker.token, token: attacker.token };
      await expectServed(attacker, "the claims of an ordinary client", [issueId(signer)]);
      await expectNotFound(attacker, "no claims", notClaims(signer));
      await expectNotFound(attacker, "claims that are not objects", withTexts(signer, NOT_OBJECTS));
      await expectServed(attacker, "odd claims", withTexts(signer, ODD_JSON));
      await expectNotFound(attacker, "claims of the future", [issueId(signer, { issuedAtS: 2 ** 32 - 1 })]);
      const asOthers = others.map(({ token }) => issueId({ secret: attacker.token, token }));
      for (const client of [attacker, ...others]) await expectNotFound(client, "ids that a client has signed for another", asOthers);
    },
    { environment: {} },
  ),
];

/** Returns ids that a replica with the same key has issued to this client. */
function idsOf(attacker: Attacker, count: number, capabilitiesText = "{}"): string[] {
  return Array.from({ length: count }, () => issueId({ secret: SESSION_KEY, token: attacker.token }, { capabilitiesText }));
}

/** Uses each id for a call. Any response but a result, or an error that says to come later, is a missed bar. */
function useAll(attacker: Attacker, ids: readonly string[], atOnce = ids.length): Promise<void> {
  const use = async (sessionId: string): Promise<void> => {
    const reply = await attacker.callTool("echo", { text: "t" }, { sessionId });
    if (![200, 503, 404].includes(reply?.status ?? 0)) attacker.addBreach(`a valid id: ${reply?.status} ${reply?.body}`);
  };
  return forAll(ids, use, atOnce);
}

/** Does something, and counts the servers meanwhile. More than `most` at a time are a missed bar, as is anything that is left. */
async function withServersUpTo(most: number, { attacker, countServers }: Scene, act: () => Promise<void>): Promise<void> {
  let found = 0;
  const counting = setInterval(() => (found = Math.max(found, countServers())), COUNT_INTERVAL_MS);
  await act();
  clearInterval(counting);
  attacker.replies.add(`${found} servers at most`);
  if (found > most) attacker.addBreach(`${found} servers ran at a time, more than ${most}`);
  await attacker.expectNothingLeft();
}

/** Sessions of one client that need a server of their own, each from another replica. */
function privateFlood(name: string, run: (scene: Scene) => Promise<void>): Attack {
  const most = MAX_PRIVATE_SERVERS + ENDING_SERVERS + SHARED_SERVERS;
  const flags = ["--max-private-servers", String(MAX_PRIVATE_SERVERS)];
  return session(name, (scene) => withServersUpTo(most, scene, () => run(scene)), { flags });
}

const REPLAYED: readonly Attack[] = [
  privateFlood("300 valid ids at once that want a server of their own", ({ attacker }) => useAll(attacker, idsOf(attacker, 300, ASKS))),
  privateFlood("ids of 20 clients that want a server of their own, again and again", async ({ attacker, others }) => {
    const all = [attacker, ...others].map((client) => ({ client, ids: idsOf(client, 5, ASKS) }));
    for (let round = 0; round < 4 && !attacker.isOver; round++) {
      await Promise.all(all.map(({ client, ids }) => useAll(client, ids)));
      await sleep(500);
    }
  }),
  session("one id that wants a server of its own, 300 times at once", async (scene) => {
    const [id = ""] = idsOf(scene.attacker, 1, ASKS);
    const same = Array.from({ length: 300 }, () => id);
    await withServersUpTo(SHARED_SERVERS + 1, scene, () => useAll(scene.attacker, same));
  }),
  session(
    "10,000 valid ids, and 200 of each of 20 clients",
    async ({ attacker, others }) => {
      await useAll(attacker, idsOf(attacker, 10_000), 100);
      await Promise.all(others.map((other) => useAll(other, idsOf(other, 200), 5)));
      const sessions = (await attacker.status())?.sessions ?? Number.NaN;
      attacker.replies.add(`${sessions} sessions`);
      if (!(sessions <= MAX_SESSIONS)) attacker.addBreach(`${sessions} sessions, more than ${MAX_SESSIONS}`);
      await attacker.expectNothingLeft();
    },
    { flags: ["--max-sessions", String(MAX_SESSIONS), "--memory-budget-bytes", String(BUDGET_BYTES)], budgetBytes: BUDGET_BYTES },
  ),
  session("one id 500 times at once, and its DELETE in the middle", async ({ attacker }) => {
    const before = (await attacker.status())?.sessions;
    for (let round = 0; round < 5; round++) {
      const [sessionId = ""] = idsOf(attacker, 1);
      const same = Array.from({ length: 500 }, () => sessionId);
      await Promise.all([useAll(attacker, same), times(3, () => attacker.fetch("DELETE", { sessionId }))]);
      await expectNotFound(attacker, "an id after its DELETE", [sessionId]);
    }
    const after = (await attacker.status())?.sessions;
    if (after !== before) attacker.addBreach(`${after} sessions instead of ${before}`);
  }),
];

/** JSON texts and others in place of the id of a request. */
const REQUEST_IDS: readonly string[] = [
  ...'"__proto__" "constructor" "" 0 -0 -1 1.5 1e400 9007199254740993 123456789012345678901234567890 007 0x10 null true'.split(" "),
  ...String.raw`[] [1] {} {"a":1} "a","b":"c" 1,"result":{} " "a - NaN "\u0000" "\ud800" "a\r\n\r\ndata:{}\r\n\r\n"`.split(" "),
  ' "a"',
  '"a" ',
  "\u00ff",
  '"a\r\nevent: x\r\ndata: y\r\n\r\n"',
  '"a\n\ndata: {}\n\n"',
  '"\u2028\u2029"',
  '"\u0000"',
  '"\ufeff"',
  ...[62, 64, 6000].map((length) => `"${"k".repeat(length)}"`),
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
  if (reply.status !== 200) return attacker.addBreach(`${lastEventId}: ${reply.status} ${reply.body}`);
  const text = Buffer.from(lastEventId.split("-").slice(3).join("-"), "base64url").toString();
  try {
    const events = new EventStreamParser().push(Buffer.from(reply.body)).filter(({ data = "" }) => data !== "");
    const [message] = events.map(({ data = "" }) => JSON.parse(data) as { readonly id?: unknown; readonly error?: unknown });
    if (events.length === 1 && message?.error !== undefined && message.id === JSON.parse(text)) return;
  } catch {
    // The breach below shows the body.
  }
  attacker.addBreach(`${text}: ${reply.body}`);
}

const OTHER_STREAMS: readonly Attack[] = [
  session(`${eventIds().length} event ids of other replicas, in a session here and in one of theirs`, async ({ attacker }) => {
    const foreign = issueId({ secret: SESSION_KEY, token: attacker.token });
    for (const sessionId of [attacker.sessionId, foreign]) await forAll(eventIds(), (id) => resume(attacker, id, sessionId), 20);
    for (const value of [`r1-1-${OTHER_REPLICA}-MQ\r\n x`, `r1-1-${OTHER_REPLICA}-MQ\0`, "\u00ff"]) {
      const reply = await pingRaw(attacker, [`Mcp-Session-Id: ${foreign}`, `Last-Event-ID: ${value}`]);
      if (reply === undefined || reply.status >= 500) attacker.addBreach(`${JSON.stringify(value)}: ${reply?.status} ${reply?.body}`);
    }
    await expectServed(attacker, "the sessions", [attacker.sessionId, foreign]);
    await attacker.expectNothingLeft();
  }),
  session(`${STREAMS} streams at once in place of those of other replicas`, async ({ attacker }) => {
    // A stream stays open until its limit.
    const open = (index: number): Promise<unknown> =>
      attacker.fetch("GET", { headers: { "Last-Event-ID": `s${index}-${index}-${OTHER_REPLICA}` }, limitMs: STREAM_LIMIT_MS });
    await times(STREAMS, open);
    await attacker.expectNothingLeft();
  }),
];

export const SESSION_ATTACKS: readonly Attack[] = [...FORGED, ...REPLAYED, ...OTHER_STREAMS];
