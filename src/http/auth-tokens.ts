import { hash, timingSafeEqual } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
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

export class AuthTokens {
  readonly #serverName: string;
  #tokens: readonly AuthToken[];
  #count = 0;

  constructor(texts: readonly string[], serverName: string) {
    this.#serverName = serverName;
    this.#tokens = texts.map((text) => this.#create(text));
  }

  /** Always compares with all tokens, so the time reveals at most a length. @returns undefined without a valid bearer token. */
  identify(authorization: string | undefined): Principal | undefined {
    const match = /^bearer +(.*)$/is.exec(authorization ?? "");
    // Node decodes header bytes as latin1. Encoded back, a UTF-8 token compares as it was sent.
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

  /** A token that was valid before keeps its principal. @returns the principals of the removed tokens. */
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

/** A watch would miss a replaced file, a new link in the path (a Kubernetes secret), and all changes on many bind mounts. */
const POLL_MS = 1000;

/** Reads the tokens when their file changes, until the drain. An invalid file changes nothing. @param onRevoked ends what a principal has open. */
export async function watchTokenFile(
  context: Context,
  tokens: AuthTokens,
  path: string,
  onRevoked: (principal: Principal) => void,
): Promise<void> {
  const { config, defects, draining } = context;
  let settled = stateOf({ texts: config.authTokens });
  /** Read once: the file may be half written. */
  let pending: string | undefined;
  for (;;) {
    await delay(pending === undefined ? POLL_MS : SETTLE_MS, undefined, { ref: false });
    const file = await rereadSecretFile(path, "token");
    if (draining.aborted) return;
    const state = stateOf(file);
    if (state !== settled && state === pending) {
      settled = state;
      defects.guard("auth token file", () => useTokens(context, tokens, file).forEach(onRevoked));
    }
    pending = state === settled ? undefined : state;
  }
}

function useTokens({ log, secrets }: Context, tokens: AuthTokens, { texts, problem }: SecretFile): Principal[] {
  if (texts === undefined) {
    log.warn({ reason: problem }, "auth token file rejected: the tokens are unchanged");
    return [];
  }
  secrets.add(texts);
  const revoked = tokens.replace(texts);
  log.info({ count: texts.length }, "auth tokens reloaded");
  return revoked;
}
