import { hash, timingSafeEqual } from "node:crypto";
import { MIN_KEY_LENGTH, rereadSecretFile, type SecretFile, SETTLE_MS, stateOf } from "../config/secret-file.ts";
import type { Context } from "../context.ts";
import { deriveKey } from "../session/ids.ts";
import type { Principal } from "../session/session.ts";

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

/**
 * The interval at which the file is read. A watch would miss changes: a new link in the path (a Kubernetes secret), a replaced file
 * (editors), and any on many bind mounts.
 */
const POLL_MS = 1000;

/** Updates the tokens when their file changes. An invalid file changes nothing, so a mistake neither locks out nor admits clients. */
export class AuthTokenReload {
  readonly #context: Context;
  readonly #tokens: AuthTokens;
  readonly #path: string;
  readonly #onRevoked: (principal: Principal) => void;
  #timer: NodeJS.Timeout | undefined;
  /** The state that was acted on last. */
  #settled: string;
  /** A different state that has been read once since. */
  #pending: string | undefined;
  #isClosed = false;

  constructor(context: Context, tokens: AuthTokens, path: string, onRevoked: (principal: Principal) => void) {
    [this.#context, this.#tokens, this.#path, this.#onRevoked] = [context, tokens, path, onRevoked];
    this.#settled = stateOf({ texts: context.config.authTokens });
    this.#pollIn(POLL_MS);
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
  }

  /** Schedules one read after the previous one, so that reads do not accumulate on a file system that hangs. */
  #pollIn(delayMs: number): void {
    this.#timer = setTimeout(() => {
      this.#poll().catch((error: unknown) => {
        this.#context.defects.note("auth token file", error);
        this.#pollIn(POLL_MS);
      });
    }, delayMs).unref();
  }

  async #poll(): Promise<void> {
    const file = await rereadSecretFile(this.#path, "token");
    if (this.#isClosed) return;
    const state = stateOf(file);
    const isNew = state !== this.#settled;
    const isSettled = state === this.#pending;
    this.#pending = isNew && !isSettled ? state : undefined;
    if (isNew && isSettled) {
      this.#settled = state;
      this.#apply(file);
    }
    this.#pollIn(this.#pending === undefined ? POLL_MS : SETTLE_MS);
  }

  #apply({ texts, problem }: SecretFile): void {
    const { log, secrets } = this.#context;
    if (texts === undefined) {
      log.warn({ reason: problem }, "auth token file rejected: the tokens are unchanged");
      return;
    }
    secrets.add(texts);
    const revoked = this.#tokens.replace(texts);
    log.info({ count: texts.length }, "auth tokens reloaded");
    for (const principal of revoked) this.#onRevoked(principal);
  }
}
