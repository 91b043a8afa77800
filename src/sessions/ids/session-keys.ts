import { createSecretKey, hkdfSync, type KeyObject, randomBytes } from "node:crypto";
import type { Principal } from "../session.ts";

/** The minimum length of a key, and of a token from which keys are derived. */
export const MIN_KEY_LENGTH = 32;

const KEY_BYTES = 32;

/** The keys that are made of one secret, one for each purpose. */
export interface DerivedKeys {
  /** Signs session ids. */
  readonly sessionId: KeyObject;
  /** Encrypts the `requestState` of servers. */
  readonly requestState: KeyObject;
}

/** Returns the keys of a secret (RFC 5869, HKDF). All replicas with this secret have the same. */
export function deriveKeys(secret: string | Uint8Array): DerivedKeys {
  const derive = (purpose: string): KeyObject =>
    createSecretKey(Buffer.from(hkdfSync("sha256", secret, "", `claw-mcp-stdio ${purpose} v1`, KEY_BYTES)));
  return { sessionId: derive("session id"), requestState: derive("request state") };
}

/**
 * The keys of SESSION_KEY. Without that setting, the keys of a principal are derived from its token. A principal with a short token, and
 * clients without a token, have random keys, which no other process knows.
 */
export class SessionKeys {
  readonly #configured: readonly DerivedKeys[];
  readonly #random: readonly DerivedKeys[] = [deriveKeys(randomBytes(KEY_BYTES))];

  /** @param texts the first one signs, and all are accepted. */
  constructor(texts: readonly string[]) {
    this.#configured = texts.map(deriveKeys);
  }

  /** Returns the keys for a principal: the first one signs, and all are accepted. There is at least one. */
  of(principal: Principal | undefined): readonly DerivedKeys[] {
    if (this.#configured.length > 0) return this.#configured;
    return principal?.keys === undefined ? this.#random : [principal.keys];
  }
}
