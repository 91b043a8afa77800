import type { Ledger } from "../ledger.ts";
import type { Random } from "../random.ts";
import { LoadClient } from "./load-client.ts";
import type { Endpoint } from "./session.ts";

const SHARED_CLIENTS = 20;
const PRIVATE_CLIENTS = 5;
const MAX_SLOTS = 4;

/** Creates clients. Some declare capabilities that need a private server. Every second client keeps a GET stream open. */
export function createClients(
  endpoint: Endpoint,
  ledger: Ledger,
  random: Random,
  onRight: (client: LoadClient, serverPid: number) => void,
): LoadClient[] {
  return Array.from({ length: SHARED_CLIENTS + PRIVATE_CLIENTS }, (_, index) => {
    const isPrivate = index >= SHARED_CLIENTS;
    const identity = {
      name: `${isPrivate ? "private" : "shared"}-${index}`,
      capabilities: isPrivate ? { sampling: {}, roots: { listChanged: true } } : {},
    };
    const options = { endpoint, identity, ledger, random: random.fork(), onRight };
    return new LoadClient({ ...options, slots: random.integer(1, MAX_SLOTS), listens: index % 2 === 0 });
  });
}
