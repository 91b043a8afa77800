import type { Ledger } from "../ledger.ts";
import type { Random } from "../random.ts";
import type { ChaosClient } from "./chaos-client.ts";
import { LoadClient } from "./load-client.ts";
import type { Endpoint } from "./session.ts";
import { StatelessLoadClient } from "./stateless-load-client.ts";

const CLIENTS = 24;
const PRIVATE_CLIENTS = 4;
const STATELESS_CLIENTS = 8;
const MAX_SLOTS = 4;

/** The protocol eras of the clients: `sessions` for a wrapper without MCP 2026-07-28, `stateless` for a server without sessions. */
export type CrowdKind = "sessions" | "mixed" | "stateless";

/** Creates clients. Some declare capabilities that need a private server, and some have no session; half of those can answer questions. Every second client listens. */
export function createClients(
  kind: CrowdKind,
  endpoint: Endpoint,
  ledger: Ledger,
  random: Random,
  onRight: (client: ChaosClient, serverPid: number) => void,
): ChaosClient[] {
  const statelessFrom = { sessions: CLIENTS, mixed: CLIENTS - STATELESS_CLIENTS, stateless: 0 }[kind];
  return Array.from({ length: CLIENTS }, (_, index) => {
    const options = { endpoint, ledger, random: random.fork(), onRight, slots: random.integer(1, MAX_SLOTS), listens: index % 2 === 0 };
    if (index >= statelessFrom) return new StatelessLoadClient({ ...options, name: `stateless-${index}`, answers: index % 4 < 2 });
    const isPrivate = index < PRIVATE_CLIENTS;
    const capabilities = isPrivate ? { sampling: {}, roots: { listChanged: true } } : {};
    return new LoadClient({ ...options, identity: { name: `${isPrivate ? "private" : "shared"}-${index}`, capabilities } });
  });
}
