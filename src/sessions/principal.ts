import type { DerivedKeys } from "./ids/derived-keys.ts";

/** The owner of sessions: one object for each auth token, without the token itself. */
export interface Principal {
  /** True if the token is no longer valid. */
  readonly isRevoked: boolean;
  /** Names the token in the log, without a part of it. */
  readonly name: string;
  /** A text for the token, the same in all replicas. It must not be shown: it would confirm guesses of a short token. */
  readonly fingerprint: string;
  /** The keys that are derived from the token; undefined if it is too short for that. */
  readonly keys: DerivedKeys | undefined;
}
