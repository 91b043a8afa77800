import { hash, timingSafeEqual } from "node:crypto";
import { MIN_KEY_LENGTH } from "../config/secret-file.ts";
import { deriveKey } from "../sessions/ids/derived-keys.ts";
import type { Principal } from "../sessions/principal.ts";

interface AuthToken {
  readonly text: string;
  readonly expected: Buffer;
  /** Reused, so that both buffers of the comparison have the same length. */
  readonly received: Buffer;
  readonly principal: Principal & { isRevoked: boolean };
}

/** The valid tokens, and the principal of each. */
export class AuthTokens {
  readonly #serverName: string;
  #tokens: readonly AuthToken[];
  #count = 0;

  /** @param serverName the name of the MCP server, to which the keys of session ids belong. */
  constructor(texts: readonly string[], serverName: string) {
    this.#serverName = serverName;
    this.#tokens = texts.map((text) => this.#create(text));
  }

  /**
   * Returns the principal of an `Authorization` header; undefined without a valid bearer token. Always compares with all tokens. The time
   * does not depend on the place where a wrong token differs; it can reveal only the length.
   */
  identify(authorization: string | undefined): Principal | undefined {
    const match = /^bearer +(.*)$/is.exec(authorization ?? "");
    // Node decodes header bytes as latin1. Encoded back to bytes, a UTF-8 token compares as the client sent it.
    const presented = Buffer.from(match?.[1]?.trimEnd() ?? "", "latin1");
    let principal: Principal | undefined;
    for (const token of this.#tokens) {
      const isSameLength = presented.length === token.expected.length;
      if (isSameLength) presented.copy(token.received);
      else token.received.fill(0);
      if (timingSafeEqual(token.received, token.expected) && isSameLength) ({ principal } = token);
    }
    return principal;
  }

  /**
   * Replaces all tokens. A token that was valid before keeps its principal.
   *
   * @returns the principals of the removed tokens.
   */
  replace(texts: readonly string[]): Principal[] {
    const old = new Map(this.#tokens.map((token) => [token.text, token]));
    this.#tokens = texts.map((text) => old.get(text) ?? this.#create(text));
    for (const text of texts) old.delete(text);
    return [...old.values()].map(({ principal }) => {
      principal.isRevoked = true;
      return principal;
    });
  }

  /** Tokens have numbers as names. A hash would confirm guesses of a short token. */
  #create(text: string): AuthToken {
    const expected = Buffer.from(text, "utf8");
    const principal = {
      isRevoked: false,
      name: `token-${++this.#count}`,
      fingerprint: hash("sha256", `claw-mcp-stdio principal ${text}`, "base64url"),
      sessionKey: text.length < MIN_KEY_LENGTH ? undefined : deriveKey(text, "session id", this.#serverName),
    };
    return { text, expected, received: Buffer.alloc(expected.length), principal };
  }
}
