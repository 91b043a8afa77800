// Valid session ids of other replicas, in numbers and at times that no honest client has.

import { setTimeout as sleep } from "node:timers/promises";
import { send } from "../../../test/support/http-client.ts";
import type { Attack, Scene } from "../../attack.ts";
import type { Attacker } from "../../attacker.ts";
import { expectNothingLeft } from "../../leftovers.ts";
import { issueId } from "../../session-forge.ts";
import { addBreach, expectNotFound, expectServed, forAll, PING, session, SESSION_KEY } from "./not-found.ts";

const ASKS = '{"sampling":{},"elicitation":{},"roots":{}}';
const MAX_PRIVATE_SERVERS = 4;
/** A server that must make place ends within this time, while its successor starts. */
const ENDING_SERVERS = MAX_PRIVATE_SERVERS;
const SHARED_SERVERS = 1;
const MAX_SESSIONS = 500;
const COUNT_INTERVAL_MS = 25;
const MIB = 1024 * 1024;
const BUDGET_BYTES = 64 * MIB;

interface Status {
  readonly sessions: number;
}

/** Returns ids that a replica with the same key has issued to this client. */
function idsOf(attacker: Attacker, count: number, capabilitiesText = "{}"): string[] {
  return Array.from({ length: count }, () => issueId({ secret: SESSION_KEY, token: attacker.token }, { capabilitiesText }));
}

/** Uses each id for a call. Any response but a result, or an error that says to come later, is a missed bar. */
async function useAll(attacker: Attacker, ids: readonly string[], atOnce: number): Promise<void> {
  await forAll(
    ids,
    async (sessionId) => {
      const reply = await attacker.callTool("echo", { text: "t" }, { sessionId });
      if (reply?.status !== 200 && reply?.status !== 503 && reply?.status !== 404)
        addBreach(attacker, `a valid id: ${reply?.status} ${reply?.body}`);
    },
    atOnce,
  );
}

async function sessionsIn({ origin, token }: Attacker): Promise<number> {
  const reply = await send(new URL("/status", origin), { method: "GET", headers: { Authorization: `Bearer ${token}` } });
  return (JSON.parse(reply.body) as Status).sessions;
}

/** Does something, and counts the servers meanwhile. More than `most` at a time are a missed bar. */
async function withServersUpTo(most: number, { attacker, countServers }: Scene, act: () => Promise<void>): Promise<void> {
  let found = 0;
  const counting = setInterval(() => (found = Math.max(found, countServers())), COUNT_INTERVAL_MS);
  await act();
  clearInterval(counting);
  attacker.replies.add(`${found} servers at most`);
  if (found > most) addBreach(attacker, `${found} servers ran at a time, more than ${most}`);
}

/** Sessions of one client that need a server of their own, each from another replica. */
function privateFlood(name: string, run: (scene: Scene) => Promise<void>): Attack {
  return session(
    name,
    async (scene) => {
      await withServersUpTo(MAX_PRIVATE_SERVERS + ENDING_SERVERS + SHARED_SERVERS, scene, () => run(scene));
      await expectNothingLeft(scene.attacker);
    },
    { flags: ["--max-private-servers", String(MAX_PRIVATE_SERVERS)] },
  );
}

export const REPLAYED_ID_ATTACKS: readonly Attack[] = [
  privateFlood("300 valid ids at once that want a server of their own", async ({ attacker }) => {
    await useAll(attacker, idsOf(attacker, 300, ASKS), 300);
  }),
  privateFlood("ids of 20 clients that want a server of their own, again and again", async ({ attacker, others }) => {
    const all = [attacker, ...others].map((client) => ({ client, ids: idsOf(client, 5, ASKS) }));
    for (let round = 0; round < 4 && !attacker.isOver; round++) {
      await Promise.all(all.map(({ client, ids }) => useAll(client, ids, 5)));
      await sleep(500);
    }
  }),
  session("one id that wants a server of its own, 300 times at once", async (scene) => {
    const { attacker } = scene;
    const [id = ""] = idsOf(attacker, 1, ASKS);
    await withServersUpTo(SHARED_SERVERS + 1, scene, async () => {
      await useAll(
        attacker,
        Array.from({ length: 300 }, () => id),
        300,
      );
    });
    await expectNothingLeft(attacker);
  }),
  session(
    "10,000 valid ids, and 200 of each of 20 clients",
    async ({ attacker, others }) => {
      await useAll(attacker, idsOf(attacker, 10_000), 100);
      await Promise.all(others.map((other) => useAll(other, idsOf(other, 200), 5)));
      const sessions = await sessionsIn(attacker);
      attacker.replies.add(`${sessions} sessions`);
      if (sessions > MAX_SESSIONS) addBreach(attacker, `${sessions} sessions, more than ${MAX_SESSIONS}`);
      await expectNothingLeft(attacker);
    },
    {
      flags: ["--max-sessions", String(MAX_SESSIONS), "--memory-budget-bytes", String(BUDGET_BYTES)],
      budgetBytes: BUDGET_BYTES,
    },
  ),
  session("one id 500 times at once, and its DELETE in the middle", async ({ attacker }) => {
    const before = await sessionsIn(attacker);
    for (let round = 0; round < 5; round++) {
      const [sessionId = ""] = idsOf(attacker, 1);
      const uses = useAll(
        attacker,
        Array.from({ length: 500 }, () => sessionId),
        500,
      );
      const ends = Array.from({ length: 3 }, () => attacker.fetch("DELETE", { sessionId }));
      await Promise.all([uses, ...ends]);
      await expectNotFound(attacker, "an id after its DELETE", [sessionId]);
    }
    const after = await sessionsIn(attacker);
    if (after !== before) addBreach(attacker, `${after} sessions instead of ${before}`);
  }),
  session("an id after its DELETE, 1,000 times, and 20,000 DELETEs of others", async ({ attacker, startReplica }) => {
    const replica = (await startReplica())();
    await replica.open();
    const { sessionId } = replica;
    const unused = idsOf(attacker, 1);
    const ended = [sessionId, ...unused];
    await expectServed(attacker, "the id", [sessionId]);
    for (const id of ended) await attacker.fetch("DELETE", { sessionId: id });
    await expectNotFound(
      attacker,
      "an id after its DELETE",
      Array.from({ length: 1000 }, (_, index) => ended[index % 2] ?? ""),
    );
    // The other replica does not know of the DELETE.
    await expectServed(replica, "the id at its own replica", [sessionId]);
    // The sidecar need not remember all ends, but it must bound its memory.
    await forAll(idsOf(attacker, 20_000), async (id) => void (await attacker.fetch("DELETE", { sessionId: id })), 100);
    await attacker.post(PING);
  }),
];
