// The subscriptions of clients, in both protocol eras.

import { META } from "../../test/support/modern-client.ts";
import { isModern } from "./era.ts";
import { say } from "./output.ts";

interface Filter {
  readonly toolsListChanged?: boolean;
  readonly resourceSubscriptions?: readonly string[];
}

/** The resources that sessions have subscribed to. */
export const subscribedUris = new Set<string>();
const filters = new Map<string | number, Filter>();

export function listen(id: string | number, filter: Filter): void {
  filters.set(id, filter);
  say({ method: "notifications/subscriptions/acknowledged", params: { ...metaOf(id), notifications: filter } });
}

/** Ends a subscription that the client has cancelled. */
export function endListen(id: unknown): void {
  filters.delete(id as string | number);
}

/** Announces a change of the tools and of each subscribed resource. */
export function announce(): void {
  if (!isModern()) {
    say({ method: "notifications/tools/list_changed" });
    for (const uri of subscribedUris) say({ method: "notifications/resources/updated", params: { uri } });
    return;
  }
  for (const [id, { toolsListChanged, resourceSubscriptions = [] }] of filters) {
    if (toolsListChanged === true) say({ method: "notifications/tools/list_changed", params: metaOf(id) });
    for (const uri of resourceSubscriptions) say({ method: "notifications/resources/updated", params: { ...metaOf(id), uri } });
  }
}

function metaOf(id: string | number): object {
  return { _meta: { [META.subscriptionId]: id } };
}
