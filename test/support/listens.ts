import { isDeepStrictEqual } from "node:util";
import type { Headers } from "./http-client.ts";
import type { JsonRpcMessage } from "./json-rpc.ts";
import { META, type ModernClient } from "./modern-client.ts";
import type { RunningSidecar } from "./running-sidecar.ts";
import { readStatus } from "./status.ts";

/** A filter of `subscriptions/listen` for everything that the fixture offers. */
export const EVERYTHING = {
  toolsListChanged: true,
  promptsListChanged: true,
  resourcesListChanged: true,
  resourceSubscriptions: ["fixture://a"],
};

/** The open listens of a server, as its tool `listens` returns them. */
export interface ServerListen {
  readonly id: number;
  readonly requested: object;
}

/** Returns all listens that the server has. Those of the sidecar itself come first, unless they were replaced. */
export async function readAllListens(client: Pick<ModernClient, "toolText">): Promise<readonly ServerListen[]> {
  return JSON.parse(await client.toolText("listens")) as ServerListen[];
}

/** Returns the listens that the server has, without the sidecar's own. */
export async function readListens(client: ModernClient): Promise<readonly ServerListen[]> {
  return (await readAllListens(client)).slice(1);
}

/** Waits until the server has a single listen, that of the sidecar itself, with this filter. */
export async function waitForOwnFilter(client: Pick<ModernClient, "toolText">, filter: object): Promise<void> {
  for (;;) {
    const [own, ...others] = await readAllListens(client);
    if (others.length === 0 && isDeepStrictEqual(own?.requested, filter)) return;
  }
}

export async function waitForListens(client: ModernClient, count: number): Promise<readonly ServerListen[]> {
  for (;;) {
    const listens = await readListens(client);
    if (listens.length === count) return listens;
  }
}

/** Returns the id that a message of a subscription names. */
export function subscriptionIdOf({ params, result }: JsonRpcMessage): unknown {
  return ((params ?? result)?.["_meta"] as Record<string, unknown> | undefined)?.[META.subscriptionId];
}

/** Returns method, subscription and URI of a notification. */
export function noticeOf(message: JsonRpcMessage): readonly unknown[] {
  const { method, params } = message;
  const uri = params?.["uri"];
  return [method, subscriptionIdOf(message), ...(uri === undefined ? [] : [uri])];
}

/** Waits until no subscription is open, and clients use no memory. */
export async function waitUntilFree(sidecar: RunningSidecar, headers: Headers = {}): Promise<void> {
  for (;;) {
    const { stateless, memory } = await readStatus(sidecar, headers);
    if (stateless?.subscriptions === 0 && memory.usedBytes === memory["serverOutput"]) return;
  }
}
