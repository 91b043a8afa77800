// Subscriptions of clients without a session (MCP 2026-07-28), in numbers and with filters that no honest client has.

import type { Attack, Scene } from "../attack.ts";
import { expectNothingLeft } from "../leftovers.ts";
import { StatelessAttacker } from "../stateless-attacker.ts";
import { stateless } from "./stateless.ts";

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

/** All clients of the attacker. */
function crowd(client: StatelessAttacker, { others }: Scene): StatelessAttacker[] {
  return [client, ...others.map((other) => new StatelessAttacker(other))];
}

function endAll(clients: readonly StatelessAttacker[]): void {
  for (const client of clients) client.endListens();
}

function uris(count: number, length: number): string[] {
  return Array.from({ length: count }, (_, index) => `${index}${"u".repeat(length)}`);
}

export const LISTEN_ATTACKS: readonly Attack[] = ERAS.flatMap((era) => [
  stateless(
    `3000 subscriptions of one client at once, ${era} server`,
    async (client) => {
      await client.listen(3000, EVERYTHING);
      client.endListens();
      await expectNothingLeft(client.attacker);
    },
    // They all connect before the first of them has sent its token.
    { era, flags: ["--max-connections-without-token", "4096"] },
  ),
  stateless(
    `3000 subscriptions of one client, opened and closed in turn, ${era} server`,
    async (client) => {
      for (let round = 0; round < 30; round++) {
        const opening = client.listen(100, EVERYTHING);
        if (round % 2 === 0) await opening;
        client.endListens();
        await opening;
      }
      await expectNothingLeft(client.attacker);
    },
    { era },
  ),
  stateless(
    `${MOST} subscriptions that are not read, of 4 MB each, ${era} server`,
    async (client) => {
      await client.listen(MOST, EVERYTHING);
      await client.callTool("trick", era === "legacy" ? FLOOD : { trick: "forge", count: 5000 });
      client.endListens();
      await expectNothingLeft(client.attacker);
    },
    { era },
  ),
  stateless(
    `filters of 1 to 30,000 resources, of 256 KiB and of 4 MiB, ${era} server`,
    async (client) => {
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
      client.endListens();
      await expectNothingLeft(client.attacker);
    },
    { era },
  ),
  stateless(
    `${MOST} filters of 2000 resources at once, ${era} server`,
    async (client) => {
      await client.listen(MOST, { resourceSubscriptions: uris(2000, 100) });
      client.endListens();
      await expectNothingLeft(client.attacker);
    },
    { era },
  ),
  stateless(
    `300 filters of 1000 resources at once, each closed and opened again, ${era} server`,
    async (client) => {
      for (let round = 0; round < 3; round++) {
        await client.listen(300, { toolsListChanged: true, resourceSubscriptions: uris(1000, 20) }, { isRead: true });
        client.endListens();
      }
      await expectNothingLeft(client.attacker);
    },
    { era },
  ),
  stateless(
    `21 clients with ${MOST} subscriptions each, and 1000 changes of the tools, ${era} server`,
    async (client, scene) => {
      const clients = crowd(client, scene);
      for (const each of clients) await each.listen(MOST, { toolsListChanged: true }, { isRead: true });
      await client.callTool(
        "trick",
        era === "legacy" ? { trick: "tiny", line: LIST_CHANGED, count: 1000 } : { trick: "forge", count: 1000 },
      );
      endAll(clients);
      await expectNothingLeft(client.attacker);
    },
    { era },
  ),
  stateless(
    // A server with sessions has no ids of subscriptions, so each client gets all of these.
    `${era === "legacy" ? "1600" : "40,000"} notifications of the server with ids of other requests, ${era} server`,
    async (client) => {
      await client.listen(MOST, { toolsListChanged: true }, { isRead: true });
      await client.callTool("trick", { trick: "forge", count: era === "legacy" ? 100 : 2500 });
      client.endListens();
      await expectNothingLeft(client.attacker);
    },
    { era },
  ),
]);
