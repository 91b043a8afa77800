// The attacker as a client of MCP 2026-07-28: requests without a session, and subscriptions.

import type { ClientRequest } from "node:http";
import { startRequest } from "../test/support/http-client.ts";
import { ModernClient } from "../test/support/modern-client.ts";
import type { Attacker, Sent } from "./attacker.ts";
import { within } from "./bounded.ts";

const BEGIN_LIMIT_MS = 20_000;

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
}
