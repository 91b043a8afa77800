import type { Defects } from "../observability/defects.ts";
import type { AuthTokens } from "./auth-tokens.ts";
import { type SecretFile, SETTLE_MS, stateOf } from "../config/secret-file.ts";
import type { Principal } from "../sessions/principal.ts";
import type { Log } from "../observability/log.ts";

/**
 * The interval at which the file is read. A watch would miss changes: a new link in the path (a Kubernetes secret), a replaced file
 * (editors), and any on many bind mounts.
 */
const POLL_MS = 1000;

export interface AuthTokenReloadOptions {
  readonly tokens: AuthTokens;
  /** The current tokens. */
  readonly texts: readonly string[];
  readonly read: () => Promise<SecretFile>;
  /** Called with new tokens before they become valid. */
  readonly onTokens: (texts: readonly string[]) => void;
  readonly onRevoked: (principal: Principal) => void;
  readonly defects: Pick<Defects, "note">;
  readonly log: Log;
}

/** Updates the tokens when their file changes. An invalid file changes nothing, so a mistake neither locks out nor admits clients. */
export class AuthTokenReload {
  readonly #options: AuthTokenReloadOptions;
  #timer: NodeJS.Timeout | undefined;
  /** The state that was acted on last, and a different one that was read since then. */
  #settled: string;
  /** A different state that has been read once since. */
  #pending: string | undefined;
  #isClosed = false;

  constructor(options: AuthTokenReloadOptions) {
    this.#options = options;
    this.#settled = stateOf({ texts: options.texts });
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
      this.#apply(file);
    }
    this.#pollIn(this.#pending === undefined ? POLL_MS : SETTLE_MS);
  }

  #apply({ texts, problem }: SecretFile): void {
    const { tokens, onTokens, onRevoked, log } = this.#options;
    if (texts === undefined) {
      log.warn({ reason: problem }, "auth token file rejected: the tokens are unchanged");
      return;
    }
    onTokens(texts);
    const revoked = tokens.replace(texts);
    log.info({ count: texts.length }, "auth tokens reloaded");
    for (const principal of revoked) onRevoked(principal);
  }
}
