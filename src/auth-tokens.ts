import { timingSafeEqual } from "node:crypto";
import type { Principal } from "./mux/session.ts";

interface AuthToken {
  readonly text: string;
  readonly expected: Buffer;
  /** Reused, so that the comparison always has two buffers of one length. */
  readonly received: Buffer;
  readonly principal: Principal & { isRevoked: boolean };
}

/** The tokens that are valid now, and for whom each of them stands. */
export class AuthTokens {
  #tokens: readonly AuthToken[];

  constructor(texts: readonly string[]) {
    this.#tokens = texts.map(createToken);
  }

  /**
   * Who sends a request with this `Authorization` header. Always compares with all tokens, and takes the same time wherever a wrong one
   * differs; only its length can show.
   *
   * @returns undefined where it has no valid bearer token.
   */
  identify(authorization: string | undefined): Principal | undefined {
    const match = /^bearer +(.*)$/is.exec(authorization ?? "");
    // Node gives header bytes as latin1; back to bytes, a UTF-8 token compares as it was sent.
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
   * From now on these are valid, and no others. Who had one already stays who he was.
   *
   * @returns for whom the others stood.
   */
  replace(texts: readonly string[]): Principal[] {
    const old = new Map(this.#tokens.map((token) => [token.text, token]));
    this.#tokens = texts.map((text) => old.get(text) ?? createToken(text));
    for (const text of texts) old.delete(text);
    return [...old.values()].map(({ principal }) => {
      principal.isRevoked = true;
      return principal;
    });
  }
}

function createToken(text: string): AuthToken {
  const expected = Buffer.from(text, "utf8");
  return { text, expected, received: Buffer.alloc(expected.length), principal: { isRevoked: false } };
}
