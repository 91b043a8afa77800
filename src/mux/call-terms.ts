import type { SidecarError } from "../errors.ts";
import type { CallSlots } from "./call-slots.ts";

/** The answer to a call in the server's place: an error, or the JSON text of a result. */
export type CallVerdict = { readonly error: SidecarError } | { readonly resultText: string };

/**
 * Checks a call when it is its turn. `onVerdict` is called once, at once or later, unless the check is stopped before: with undefined if
 * the call may be sent.
 *
 * @returns a function that stops the check.
 */
export type CallCheck = (onVerdict: (verdict: CallVerdict | undefined) => void) => () => void;

/** What holds for a single call, beyond the limits of its lane. */
export interface CallTerms {
  /** Its time, in place of REQUEST_TIMEOUT_MS. */
  readonly timeoutMs?: number;
  /** What it needs one of, besides one of MAX_IN_FLIGHT. Those of the lane that it goes to. */
  readonly slots?: CallSlots;
  readonly check?: CallCheck;
}
