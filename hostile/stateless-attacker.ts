// The attacker as a client of MCP 2026-07-28: requests without a session, subscriptions, and a look at what they have left behind.

import type { ClientRequest } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { send, startRequest } from "../test/support/http-client.ts";
import { ModernClient } from "../test/support/modern-client.ts";
import type { Attacker, Sent } from "./attacker.ts";
import { within } from "./bounded.ts";

const BEGIN_LIMIT_MS = 20_000;
const EMPTY_LIMIT_MS = 15_000;
const EMPTY_POLL_MS = 100;

interface Status {
  readonly stateless?: { readonly subscriptions: number; readonly asks?: { readonly parked: { readonly now: number } } };
  readonly memory: { readonly subscriptions: number; readonly unread: number };
}

export class StatelessAttacker {
  readonly attacker: Attacker;
  readonly client: ModernClient;
  readonly #listens = new Set<ClientRequest>();

  /** @param capabilities those that it declares. */
  constructor(attacker: Attacker, capabilities: object = {}) {
    this.attacker = attacker;
    this.client = new ModernClient(attacker.url, { token: attacker.token, capabilities });
  }

  /** Sends a request, and counts the response. @param headers replace those of the request; undefined removes one. */
  request(
    method: string,
    params: Readonly<Record<string, unknown>> = {},
    headers: Readonly<Record<string, string | undefined>> = {},
  ): Promise<Sent | undefined> {
    const { requestState, inputResponses } = params;
    const composed = this.client.compose(method, params, { headers, requestState, inputResponses: inputResponses as object });
    return this.attacker.postAs(composed.body, composed.headers);
  }

  callTool(name: string, args: object = {}, headers?: Readonly<Record<string, string | undefined>>): Promise<Sent | undefined> {
    return this.request("tools/call", { name, arguments: args }, headers);
  }

  /** Sends any body, with the headers of a call of `echo`. */
  raw(body: string, headers: Readonly<Record<string, string | undefined>> = {}): Promise<Sent | undefined> {
    const composed = this.client.compose("tools/call", { name: "echo" }, { headers });
    return this.attacker.postAs(body, composed.headers);
  }

  /** Opens subscriptions, of which nothing is read if they are not `read`. Resolves when all responses have begun. */
  async listen(count: number, filter: object, { isRead = false } = {}): Promise<void> {
    await Promise.all(Array.from({ length: count }, () => this.#listenOnce(filter, isRead)));
  }

  /** Closes the connections of all subscriptions. */
  endListens(): void {
    for (const request of this.#listens) request.destroy();
    this.#listens.clear();
  }

  /** Checks that the sidecar holds nothing for subscriptions and questions any more. */
  async expectNothingLeft(): Promise<void> {
    const deadlineMs = performance.now() + EMPTY_LIMIT_MS;
    for (;;) {
      const left = await this.#leftovers();
      if (left === "") return;
      if (performance.now() > deadlineMs) {
        this.attacker.replies.breaches.push(`left over: ${left}`);
        return;
      }
      await sleep(EMPTY_POLL_MS);
    }
  }

  async #listenOnce(filter: object, isRead: boolean): Promise<void> {
    const { replies, url } = this.attacker;
    const call = this.client.compose("subscriptions/listen", { notifications: filter });
    const { request, response } = startRequest(url, { ...call, agent: false });
    // The sidecar closes the connection of a reader that does not read.
    request.on("error", () => undefined);
    this.#listens.add(request);
    const begun = await within(response, BEGIN_LIMIT_MS).catch(() => undefined);
    replies.add(begun === undefined ? "no response to a listen" : `${begun.statusCode} to a listen`);
    begun?.on("error", () => undefined);
    if (begun !== undefined && (isRead || begun.statusCode !== 200)) begun.resume();
  }

  async #leftovers(): Promise<string> {
    const { origin, token } = this.attacker;
    const call = { method: "GET", headers: { Authorization: `Bearer ${token}` } };
    const reply = await send(new URL("/status", origin), call).catch(() => undefined);
    if (reply === undefined) return "no status";
    const { stateless, memory } = JSON.parse(reply.body) as Status;
    const parked = stateless?.asks?.parked.now ?? 0;
    const uses = {
      "parked calls": parked,
      subscriptions: stateless?.subscriptions,
      "subscription bytes": memory.subscriptions,
      "unread bytes": memory.unread,
    };
    return Object.entries(uses)
      .filter(([, amount]) => amount !== 0)
      .map(([use, amount]) => `${amount} ${use}`)
      .join(", ");
  }
}
