import type { Outgoing } from "../jsonrpc/outgoing.ts";
import type { Exchange } from "./exchange.ts";
import type { Held } from "./hold-queue.ts";
import type { Session } from "./session.ts";

/** A line of a client that is held while the server is away: sent when it is back, or expired. */
export interface CarriedLine extends Outgoing, Held {
  expiresAtMs: number;
}

/** One request on its way to the server and back. */
export interface Call extends CarriedLine {
  /** The id under which the server knows it, and its progress token. */
  readonly wireId: number;
  readonly method: string;
  /** Undefined for a request of the sidecar itself. */
  readonly session: Session | undefined;
  readonly exchange: Exchange;
  /** The JSON text of the progress token that the client chose. */
  readonly progressTokenText: string | undefined;
  /** When its time is up. Later, where the server shows progress or waits for the client; never after `lastDeadlineMs`. */
  deadlineMs: number;
  readonly lastDeadlineMs: number;
  /** Told once how it ended: with a result, or not. */
  readonly onSettled: ((hasResult: boolean) => void) | undefined;
}

/** Tells a client's line from one of the sidecar's own, which means nothing to the next generation. */
export function isCarriedLine(line: Outgoing): line is CarriedLine {
  return "release" in line;
}
