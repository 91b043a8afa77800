import type { CallSlots } from "./call-slots.ts";

/** What holds for a single call, beyond the limits of its lane. */
export interface CallTerms {
  /** Its time, in place of REQUEST_TIMEOUT_MS. */
  readonly timeoutMs?: number;
  /** What it needs one of, besides one of MAX_IN_FLIGHT. Those of the lane that it goes to. */
  readonly slots?: CallSlots;
}
