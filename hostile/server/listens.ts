// Subscriptions of MCP 2026-07-28, and the tricks with them.

import { readSwitch } from "../../chaos/server/records.ts";
import { say } from "../../chaos/server/output.ts";
import { META } from "../../test/support/modern-client.ts";
import { LISTEN_SWITCH, type ListenTrick } from "../contract.ts";

type Id = string | number;

const QUESTION = { method: "elicitation/create", params: { message: "?", requestedSchema: {} } };

const TRICKS: Readonly<Record<ListenTrick, (id: Id, filter: unknown) => void>> = {
  silent: () => undefined,
  refused: (id) => say({ id, error: { code: -32603, message: "no" } }),
  ended: (id, filter) => {
    acknowledge(id, filter);
    say({ id, result: { resultType: "complete", _meta: { [META.subscriptionId]: id } } });
  },
  cancelled: (id, filter) => {
    acknowledge(id, filter);
    say({ method: "notifications/cancelled", params: { requestId: id } });
  },
  "acknowledged-twice": (id, filter) => {
    acknowledge(id, filter);
    acknowledge(id, {});
  },
  "accepts-nothing": (id) => acknowledge(id, {}),
  invalid: (id) => acknowledge(id, { resourceSubscriptions: [1, null, {}], toolsListChanged: "yes", taskIds: 7 }),
  asks: (id) => say({ id, result: { resultType: "input_required", inputRequests: { q: QUESTION } } }),
};

/** Accepts all that is asked for, if no trick is chosen. */
export function listen(id: Id, filter: unknown): void {
  const trick = readSwitch(LISTEN_SWITCH) as ListenTrick | undefined;
  (trick === undefined ? acknowledge : TRICKS[trick])(id, filter);
}

/** The id of the request is that of the subscription. */
function acknowledge(id: Id, notifications: unknown): void {
  say({ method: "notifications/subscriptions/acknowledged", params: { _meta: { [META.subscriptionId]: id }, notifications } });
}
