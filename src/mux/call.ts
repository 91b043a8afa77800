import type { Outgoing } from "../jsonrpc/outgoing.ts";
import type { CallCheck } from "./call-terms.ts";
import type { Exchange } from "./exchange.ts";
import type { Held } from "./fair-queue.ts";
import type { Session } from "./session.ts";

/** A line of a client that may have to wait until it can be sent, and may be sent again to the next generation. */
export interface CarriedLine extends Outgoing, Held {
  expiresAtMs: number;
  readonly byteLength: number;
}

/** One request on its way to the server and back. */
export interface Call extends CarriedLine {
  /** The id under which the server knows it, and its progress token. */
  readonly wireId: number;
  readonly method: string;
  /** Of a `tools/call`. */
  readonly toolName: string | undefined;
  /** Undefined for a request of the sidecar itself. */
  readonly session: Session | undefined;
  readonly exchange: Exchange;
  /** When it was handed to the upstream, where it may still be queued; undefined before. */
  sentAtMs: number | undefined;
  /** The JSON text of the progress token that the client chose. */
  readonly progressTokenText: string | undefined;
  /** Its time, from acceptance on, and how much progress renews it by. */
  readonly timeoutMs: number;
  /** When its time is up. Later, where the server shows progress or waits for the client; never after `lastDeadlineMs`. */
  deadlineMs: number;
  readonly lastDeadlineMs: number;
  /** Its client has seen progress of it. */
  hasShownProgress: boolean;
  /** Whether it is sent a second time: `due` while it waits for that. */
  repeat: "none" | "due" | "done";
  /** Made before it is sent for the first time. */
  readonly check?: CallCheck | undefined;
  /** Stops the check that is being made. */
  stopCheck?: (() => void) | undefined;
  /** Told once how it ended: with a result, or not. */
  readonly onSettled: ((hasResult: boolean) => void) | undefined;
}

/** Tells a client's line from one of the sidecar's own, which means nothing to the next generation. */
export function isCarriedLine(line: Outgoing | Call): line is CarriedLine {
  return "release" in line && !("session" in line && line.session === undefined);
}

/** Whether any server may have seen it: the one that runs, or the one before. */
export function isSent({ state, repeat }: Call): boolean {
  return state === "written" || repeat !== "none";
}
