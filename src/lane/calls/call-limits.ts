import type { SidecarError } from "../../errors.ts";
import type { ToolSemaphore } from "../queue/tool-semaphore.ts";

/** The sidecar's own response to a call: an error, or the JSON text of a result. */
export type CallVerdict = { readonly error: SidecarError } | { readonly resultText: string };

/**
 * Checks a call before it is sent. Calls `onVerdict` once, synchronously or later, unless the check is stopped: with undefined if the call
 * may be sent.
 *
 * @returns a function that stops the check.
 */
export type CallCheck = (onVerdict: (verdict: CallVerdict | undefined) => void) => () => void;

/** A setting that limits the time of calls. */
export type TimeoutSetting = "REQUEST_TIMEOUT_MS" | "TOOL_TIMEOUTS_MS";

/** The limits of a single call, in addition to the limits of its lane. */
export interface CallLimits {
  /** The timeout of the call; the default is REQUEST_TIMEOUT_MS. */
  readonly timeoutMs?: number;
  /** The setting that this timeout comes from, if there is one. */
  readonly timeoutSetting?: TimeoutSetting;
  /** The semaphore of its tool in the lane, in addition to MAX_IN_FLIGHT. */
  readonly semaphore?: ToolSemaphore;
  readonly check?: CallCheck;
}
