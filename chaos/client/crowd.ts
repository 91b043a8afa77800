import type { Ledger } from "../ledger.ts";
import type { Random } from "../random.ts";
import { type ChaosClient, LEAVE_SHARE } from "./chaos-client.ts";
import { LoadClient } from "./load-client.ts";
import type { Endpoint } from "./spread-exchange.ts";
import { StatelessLoadClient } from "./stateless-load-client.ts";

const MAX_SLOTS = 4;

interface Crowd {
  readonly clients: number;
  /** Those that declare capabilities. */
  readonly privates: number;
  readonly stateless: number;
  /** True if private clients are asked. */
  readonly answers: boolean;
}

const CROWDS = {
  sessions: { clients: 24, privates: 4, stateless: 0, answers: false },
  mixed: { clients: 24, privates: 4, stateless: 8, answers: true },
  // Each private client has a server on each replica, and a replica refuses the answer to a question of another one.
  replicas: { clients: 12, privates: 2, stateless: 4, answers: false },
} as const satisfies Readonly<Record<string, Crowd>>;

/** The protocol eras of the clients: `sessions` for a wrapper without MCP 2026-07-28. `replicas` also have fewer clients. */
export type CrowdKind = keyof typeof CROWDS;

/** Creates clients. Some declare capabilities that need a private server with sessions, and some have no session. Every second client listens. */
export function createClients(
  kind: CrowdKind,
  endpoint: Endpoint,
  ledger: Ledger,
  random: Random,
  onRight: (client: ChaosClient, serverPid: number) => void,
): ChaosClient[] {
  const { clients, privates, stateless, answers }: Crowd = CROWDS[kind];
  return Array.from({ length: clients }, (_, index) => {
    const options = { endpoint, ledger, random: random.fork(), onRight, slots: random.integer(1, MAX_SLOTS), listens: index % 2 === 0 };
    if (index >= clients - stateless) return new StatelessLoadClient({ ...options, name: `stateless-${index}`, answers: index % 4 < 2 });
    const isPrivate = index < privates;
    const capabilities = isPrivate ? { elicitation: {}, sampling: {}, roots: { listChanged: true } } : {};
    const refuses = (): boolean => options.random.isLucky(LEAVE_SHARE);
    const identity = { name: `${isPrivate ? "private" : "shared"}-${index}`, capabilities, refuses };
    return new LoadClient({ ...options, identity, answers: isPrivate && answers });
  });
}
