import { type RequestMessage, Slot } from "../protocol/message.ts";

/** Sharing of servers. With `auto`, a client gets its own server if it declares sampling, elicitation or roots. */
export const ISOLATION_MODES = ["auto", "shared", "session"] as const;
export type Isolation = (typeof ISOLATION_MODES)[number];

/** The capabilities that let a server send requests to its client. Such a server must have exactly one client. */
const ASKABLE_CAPABILITIES = [Slot.sampling, Slot.elicitation, Slot.roots];

/** True if the client that sends this `initialize` gets its own server. */
export function needsOwnServer({ outline }: RequestMessage, isolation: Isolation): boolean {
  if (isolation !== "auto") return isolation === "session";
  return ASKABLE_CAPABILITIES.some((slot) => outline.has(slot));
}
