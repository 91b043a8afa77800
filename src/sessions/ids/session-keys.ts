import { randomBytes } from "node:crypto";
import type { Principal } from "../principal.ts";
import { type DerivedKeys, deriveKeys, KEY_BYTES } from "./derived-keys.ts";

/**
 * The keys of SESSION_KEY. Without that setting, the keys of a principal are derived from its token. A principal with a short token, and
 * clients without a token, have random keys, which no other process knows.
 */
export class SessionKeys {
  readonly #configured: readonly DerivedKeys[];
  readonly #random: readonly DerivedKeys[] = [deriveKeys(randomBytes(KEY_BYTES), "")];

  /** @param texts the first one signs, and all are accepted. */
  constructor(texts: readonly string[], serverName: string) {
    this.#configured = texts.map((text) => deriveKeys(text, serverName));
  }

  /** Returns the keys for a principal: the first one signs, and all are accepted. There is at least one. */
  of(principal: Principal | undefined): readonly DerivedKeys[] {
    if (this.#configured.length > 0) return this.#configured;
    return principal?.keys === undefined ? this.#random : [principal.keys];
  }
}
