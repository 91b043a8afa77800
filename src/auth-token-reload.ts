import type { Defects } from "./defects.ts";
import type { AuthTokens } from "./auth-tokens.ts";
import { type AuthTokenFile, SETTLE_MS, stateOf } from "./config/auth-token-file.ts";
import type { Principal } from "./mux/session.ts";
import type { Log } from "./observability/log.ts";

/**
 * How often the file is read. Not watched: a watch says nothing where a link above the file is exchanged (a Kubernetes secret), where
 * another file takes its name (editors), and on many bind mounts.
 */
const POLL_MS = 1000;

export interface AuthTokenReloadOptions {
  readonly tokens: AuthTokens;
  /** Those that it has now. */
  readonly texts: readonly string[];
  readonly read: () => Promise<AuthTokenFile>;
  /** Told of the tokens before they are valid. */
  readonly onTokens: (texts: readonly string[]) => void;
  readonly onRevoked: (principal: Principal) => void;
  readonly defects: Pick<Defects, "note">;
  readonly log: Log;
}

/** Keeps the tokens those of their file. One that cannot be taken changes nothing: nobody is locked out, or let in, by a mistake. */
export class AuthTokenReload {
  readonly #options: AuthTokenReloadOptions;
  #timer: NodeJS.Timeout | undefined;
  /** What was acted on last, and what was read since and is something else. */
  #settled: string;
  #pending: string | undefined;
  #isClosed = false;

  constructor(options: AuthTokenReloadOptions) {
    this.#options = options;
    this.#settled = stateOf({ tokens: options.texts });
    this.#pollIn(POLL_MS);
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
  }

  /** One after the other: a file system that hangs is not asked again. */
  #pollIn(delayMs: number): void {
    this.#timer = setTimeout(() => {
      this.#poll().catch((error: unknown) => {
        this.#options.defects.note("auth token file", error);
        this.#pollIn(POLL_MS);
      });
    }, delayMs).unref();
  }

  async #poll(): Promise<void> {
    const file = await this.#options.read();
    if (this.#isClosed) return;
    const state = stateOf(file);
    const isNew = state !== this.#settled;
    const isSettled = state === this.#pending;
    this.#pending = isNew && !isSettled ? state : undefined;
    if (isNew && isSettled) {
      this.#settled = state;
      this.#take(file);
    }
    this.#pollIn(this.#pending === undefined ? POLL_MS : SETTLE_MS);
  }

  #take({ tokens: texts, problem }: AuthTokenFile): void {
    const { tokens, onTokens, onRevoked, log } = this.#options;
    if (texts === undefined) {
      log.warn({ reason: problem }, "auth token file not taken: the tokens stay as they were");
      return;
    }
    onTokens(texts);
    const revoked = tokens.replace(texts);
    log.info({ count: texts.length }, "auth tokens reloaded");
    for (const principal of revoked) onRevoked(principal);
  }
}
