import type { Outgoing } from "../jsonrpc/outgoing.ts";
import type { Exchange } from "./exchange.ts";
import type { Held } from "./hold-queue.ts";
import type { Session } from "./session-store.ts";

/** A line of a client that is held while the server is away: sent when it is back, or expired. */
export interface CarriedLine extends Outgoing, Held {
  expiresAtMs: number;
}

/** One request of a client on its way to the server and back. */
export interface Call extends CarriedLine {
  /** The id under which the server knows it. */
  readonly wireId: number;
  readonly method: string;
  readonly session: Session;
  readonly exchange: Exchange;
  readonly deadlineMs: number;
}

/** Tells a client's line from one of the sidecar's own, which means nothing to the next generation. */
export function isCarriedLine(line: Outgoing): line is CarriedLine {
  return "release" in line;
}
