import type { Ledger } from "../ledger.ts";
import type { Random } from "../random.ts";
import { type ChaosClient, LEAVE_SHARE } from "./chaos-client.ts";
import { LoadClient } from "./load-client.ts";
import type { Endpoint } from "./session.ts";
import { StatelessLoadClient } from "./stateless-load-client.ts";

const CLIENTS = 24;
const PRIVATE_CLIENTS = 4;
const STATELESS_CLIENTS = 8;
const MAX_SLOTS = 4;

/** The protocol eras of the clients: `sessions` for a wrapper without MCP 2026-07-28. */
export type CrowdKind = "sessions" | "mixed";

/** Creates clients. Some declare capabilities that need a private server with sessions, and some have no session. Every second client listens. */
export function createClients(
  kind: CrowdKind,
  endpoint: Endpoint,
  ledger: Ledger,
  random: Random,
  onRight: (client: ChaosClient, serverPid: number) => void,
): ChaosClient[] {
  const statelessFrom = kind === "mixed" ? CLIENTS - STATELESS_CLIENTS : CLIENTS;
  return Array.from({ length: CLIENTS }, (_, index) => {
    const options = { endpoint, ledger, random: random.fork(), onRight, slots: random.integer(1, MAX_SLOTS), listens: index % 2 === 0 };
    if (index >= statelessFrom) return new StatelessLoadClient({ ...options, name: `stateless-${index}`, answers: index % 4 < 2 });
    const isPrivate = index < PRIVATE_CLIENTS;
    const capabilities = isPrivate ? { elicitation: {}, sampling: {}, roots: { listChanged: true } } : {};
    const refuses = (): boolean => options.random.isLucky(LEAVE_SHARE);
    const identity = { name: `${isPrivate ? "private" : "shared"}-${index}`, capabilities, refuses };
    return new LoadClient({ ...options, identity, answers: isPrivate && kind === "mixed" });
  });
}
