import type { Outgoing } from "../../protocol/outgoing.ts";
import type { CallCheck } from "./call-limits.ts";
import type { Exchange } from "../../sessions/exchange.ts";
import type { QueueEntry } from "../queue/fair-queue.ts";
import type { Session } from "../../sessions/session.ts";

/** A client's line, which may have to wait, and may be sent to the next generation if this one is lost. */
export interface CarriedLine extends Outgoing, QueueEntry {
  expiresAtMs: number;
  readonly byteLength: number;
}

/** One request on its way to the server and back. */
export interface Call extends CarriedLine {
  /** The id of the request on the wire, which is also its progress token. */
  readonly wireId: number;
  readonly method: string;
  /** The name of the tool, for a `tools/call`. */
  readonly toolName: string | undefined;
  /** Undefined for an internal request. */
  readonly session: Session | undefined;
  readonly exchange: Exchange;
  /** The time at which the call was passed to the upstream, which may still queue it; undefined before. */
  sentAtMs: number | undefined;
  /** The JSON text of the client's progress token. */
  readonly progressTokenText: string | undefined;
  /** The time of the call from acceptance, and after each renewal. */
  readonly timeoutMs: number;
  /** The time at which the call times out. Extended by progress and while the server waits for the client, up to `lastDeadlineMs`. */
  deadlineMs: number;
  readonly lastDeadlineMs: number;
  /** True if its client has received a progress notification. */
  hasShownProgress: boolean;
  /** `due` while the call waits to be sent again; `done` when it was sent again. */
  retry: "none" | "due" | "done";
  /** A check that runs before the call is sent for the first time. */
  readonly check?: CallCheck | undefined;
  /** Stops the running check. */
  stopCheck?: (() => void) | undefined;
  /** Called once at the end of the call. `hasResult` is false for an error. */
  readonly onSettled: ((hasResult: boolean) => void) | undefined;
}

/** True for a line that a client sent. The sidecar's own lines have no meaning for the next generation. */
export function isCarriedLine(line: Outgoing | Call): line is CarriedLine {
  return "release" in line && !("session" in line && line.session === undefined);
}

/** True if any generation may have seen the call: the current one or a former one. */
export function isSent({ state, retry }: Call): boolean {
  return state === "written" || retry !== "none";
}
