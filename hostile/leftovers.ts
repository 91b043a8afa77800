// Checks that the sidecar holds nothing for the attacker any more.

import { setTimeout as sleep } from "node:timers/promises";
import { send } from "../test/support/http-client.ts";
import type { Attacker } from "./attacker.ts";

/** Longer than the time for which calls wait for the answers of clients that have left. */
const LIMIT_MS = 15_000;
const POLL_MS = 50;
/** The calls of the bystander, and more than their memory. */
const BYSTANDER_CALLS = 4;
const BYSTANDER_BYTES = 16 * 1024;

interface Status {
  readonly lanes: { readonly shared: { readonly requestsInFlight: number } };
  readonly stateless?: { readonly subscriptions: number; readonly asks?: { readonly parked: { readonly now: number } } };
  readonly memory: { readonly subscriptions: number; readonly unread: number; readonly requests: number };
}

/** Waits until subscriptions, questions and requests of the attack have ended. Any that stay are a missed bar. */
export async function expectNothingLeft(attacker: Attacker): Promise<void> {
  const deadlineMs = performance.now() + LIMIT_MS;
  for (;;) {
    const left = await leftovers(attacker);
    if (left === "") return;
    if (performance.now() > deadlineMs) {
      attacker.replies.breaches.push(`left over: ${left}`);
      return;
    }
    await sleep(POLL_MS);
  }
}

async function leftovers({ origin, token }: Attacker): Promise<string> {
  const call = { method: "GET", headers: { Authorization: `Bearer ${token}` } };
  const reply = await send(new URL("/status", origin), call).catch(() => undefined);
  if (reply === undefined) return "no status";
  const { lanes, stateless, memory } = JSON.parse(reply.body) as Status;
  const uses: Readonly<Record<string, readonly [amount: number, most: number]>> = {
    "parked calls": [stateless?.asks?.parked.now ?? 0, 0],
    subscriptions: [stateless?.subscriptions ?? 0, 0],
    "subscription bytes": [memory.subscriptions, 0],
    "unread bytes": [memory.unread, 0],
    "requests in flight": [lanes.shared.requestsInFlight, BYSTANDER_CALLS],
    "request bytes": [memory.requests, BYSTANDER_BYTES],
  };
  return Object.entries(uses)
    .filter(([, [amount, most]]) => amount > most)
    .map(([use, [amount]]) => `${amount} ${use}`)
    .join(", ");
}
