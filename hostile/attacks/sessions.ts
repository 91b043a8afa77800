// Sessions of other replicas: ids that a client has signed itself, and valid ones in numbers and at times that no honest client has.

import { createHmac, hash, randomBytes, randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { deriveKey, encodeClaims, NONCE_BYTES, type SessionClaims } from "../../src/session/ids.ts";
import { type Attacker, forAll, times } from "../attacker.ts";
import type { Attack, Scene } from "../stage.ts";

const SESSION_KEY = "hostile-session-key-0123456789-0123456789";
const PING = { jsonrpc: "2.0", id: "p", method: "ping" };
const ASKS = '{"sampling":{},"elicitation":{},"roots":{}}';
const QUESTION = '{"jsonrpc":"2.0","id":"q","method":"roots/list"}';
const MAX_PRIVATE_SERVERS = 4;
/** A server that must make place ends within this time, while its successor starts. */
const ENDING_SERVERS = MAX_PRIVATE_SERVERS;
const SHARED_SERVERS = 1;
const MAX_SESSIONS = 500;
const COUNT_INTERVAL_MS = 25;
const BUDGET_BYTES = 64 * 1024 * 1024;
/** The default of SERVER_NAME. */
const SERVER_NAME = "mcp";

/** Returns an id for the client of this token, like one of a replica. @param secret SESSION_KEY, or the token if the sidecar has none. */
function issueId(secret: string, token: string, changes: Partial<SessionClaims> = {}): string {
  const issuedAtS = Math.floor(Date.now() / 1000);
  const usual = { protocolVersion: "2025-11-25", issuedAtS, capabilitiesText: "{}", clientInfoText: '{"name":"a","version":"1"}' };
  const claims = encodeClaims({ ...usual, ...changes }, randomBytes(NONCE_BYTES));
  const fingerprint = hash("sha256", `claw-mcp-stdio principal ${token}`, "base64url");
  const mac = createHmac("sha256", deriveKey(secret, "session id", SERVER_NAME))
    .update(`${fingerprint}.`)
    .update(claims)
    .digest();
  return Buffer.concat([claims, mac]).toString("base64url");
}

/** Returns ids that a replica with the same key has issued to this client. */
function idsOf({ token }: Attacker, count: number, capabilitiesText = "{}"): string[] {
  return Array.from({ length: count }, () => issueId(SESSION_KEY, token, { capabilitiesText }));
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

export const SESSION_ATTACKS: readonly Attack[] = [
  session(
    "ids that a client signs with its own token",
    async ({ attacker, others }) => {
      const valid = await attacker.callTool("echo", { text: "t" }, { sessionId: issueId(attacker.token, attacker.token) });
      if (valid?.status !== 200) attacker.addBreach(`an id with ordinary claims: ${valid?.status} ${valid?.body}`);
      const invalid = [{ issuedAtS: 2 ** 32 - 1 }, { protocolVersion: "2026-07-28" }, { capabilitiesText: "[]" }];
      const own = invalid.map((changes) => issueId(attacker.token, attacker.token, changes));
      await expectNotFound(attacker, "claims of no initialize", own);
      const forOthers = others.map(({ token }) => issueId(attacker.token, token));
      for (const client of [attacker, ...others]) await expectNotFound(client, "ids that a client has signed for another", forOthers);
    },
    { environment: {} },
  ),
  session(
    "ids of 20 clients that want a server of their own, again and again",
    async (scene) => {
      const all = [scene.attacker, ...scene.others].map((client) => ({ client, ids: idsOf(client, 5, ASKS) }));
      await withServersUpTo(MAX_PRIVATE_SERVERS + ENDING_SERVERS + SHARED_SERVERS, scene, async () => {
        for (let round = 0; round < 4 && !scene.attacker.isOver; round++) {
          await Promise.all(all.map(({ client, ids }) => useAll(client, ids)));
          await sleep(500);
        }
      });
    },
    { flags: ["--max-private-servers", String(MAX_PRIVATE_SERVERS)] },
  ),
  session(
    "100 sessions of one client share a server that asks 100,000 times",
    async (scene) => {
      const { attacker } = scene;
      const ids = idsOf(attacker, 100, ASKS);
      const [sessionId = ""] = ids;
      await withServersUpTo(MAX_PRIVATE_SERVERS + ENDING_SERVERS + SHARED_SERVERS, scene, async () => {
        await useAll(attacker, ids);
        const asking = attacker.callTool("trick", { trick: "tiny", line: QUESTION, count: 100_000 }, { sessionId });
        await Promise.all([asking, useAll(attacker, ids)]);
        await useAll(attacker, ids);
      });
    },
    { flags: ["--max-private-servers", String(MAX_PRIVATE_SERVERS)] },
  ),
  session(
    "5 sessions of each of 21 clients, whose servers ask 1000 times while all arrive",
    async (scene) => {
      const ask = { trick: "tiny", line: QUESTION, count: 1000 };
      await withServersUpTo(MAX_PRIVATE_SERVERS + ENDING_SERVERS + SHARED_SERVERS, scene, async () => {
        const arrive = async (client: Attacker): Promise<unknown> => {
          const ids = idsOf(client, 5, ASKS);
          return Promise.all([useAll(client, ids), ...ids.map((sessionId) => client.callTool("trick", ask, { sessionId }))]);
        };
        await Promise.all([scene.attacker, ...scene.others].map(arrive));
      });
    },
    { flags: ["--max-private-servers", String(MAX_PRIVATE_SERVERS)] },
  ),
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
      await Promise.all([useAll(attacker, same), times(3, () => attacker.end({ sessionId }))]);
      await expectNotFound(attacker, "an id after its DELETE", [sessionId]);
    }
    const after = (await attacker.status())?.sessions;
    if (after !== before) attacker.addBreach(`${after} sessions instead of ${before}`);
  }),
];
