import type { KeyObject } from "node:crypto";

/** The owner of sessions: one object for each auth token, without the token itself. */
export interface Principal {
  /** True if the token is no longer valid. */
  readonly isRevoked: boolean;
  /** Names the token in the log, without a part of it. */
  readonly name: string;
  /** A text for the token, the same in all replicas. It must not be shown: it would confirm guesses of a short token. */
  readonly fingerprint: string;
  /** The key of session ids that is derived from the token; undefined if it is too short for that. */
  readonly sessionKey: KeyObject | undefined;
}
