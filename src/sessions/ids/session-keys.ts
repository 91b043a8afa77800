import { type KeyObject, randomBytes } from "node:crypto";
import type { Principal } from "../principal.ts";
import { deriveKey, KEY_BYTES } from "./derived-keys.ts";

/** The keys of a sidecar. Of several, the first one signs or encrypts, and all are accepted. There is at least one. */
export class SessionKeys {
  /**
   * The keys that encrypt the `requestState` of servers: those of SESSION_KEY, else a random one. A key that is derived from a token would
   * let its client read and change the state.
   */
  readonly requestState: readonly KeyObject[];
  readonly #configured: readonly KeyObject[];
  readonly #random: readonly KeyObject[];

  /** @param texts those of SESSION_KEY; empty if it is not set. */
  constructor(texts: readonly string[], serverName: string) {
    this.#configured = texts.map((text) => deriveKey(text, "session id", serverName));
    const randomSecret = randomBytes(KEY_BYTES);
    this.#random = [deriveKey(randomSecret, "session id", serverName)];
    this.requestState = (texts.length > 0 ? texts : [randomSecret]).map((secret) => deriveKey(secret, "request state", serverName));
  }

  /**
   * Returns the keys of the session ids of a principal: those of SESSION_KEY, else the one that is derived from its token. A principal with a
   * short token, and clients without a token, have a random key, which no other process knows.
   */
  of(principal: Principal | undefined): readonly KeyObject[] {
    if (this.#configured.length > 0) return this.#configured;
    return principal?.sessionKey === undefined ? this.#random : [principal.sessionKey];
  }

  /** True if a principal knows the key of its session ids, and so can sign any. */
  isKnownTo(principal: Principal | undefined): boolean {
    return this.#configured.length === 0 && principal?.sessionKey !== undefined;
  }
}
