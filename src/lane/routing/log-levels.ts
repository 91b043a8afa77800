import type { Session } from "../../sessions/session.ts";

/** The levels of RFC 5424, as in MCP 2025-11-25, server/utilities/logging; most verbose first. */
const LEVELS: readonly string[] = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

/** Returns the severity of a level, from 0; -1 if it is not a level. */
function severityOf(level: unknown): number {
  return typeof level === "string" ? LEVELS.indexOf(level) : -1;
}

/** The log levels of a shared server's sessions. The server gets the most verbose one; each session gets messages from its level up. */
export class LogLevels {
  readonly #severities = new Map<Session, number>();
  /** The severity that the server was sent last; undefined if it is unknown. */
  #sentSeverity: number | undefined;

  /** @returns false if it is not a level, and was ignored. */
  set(session: Session, level: unknown): boolean {
    const severity = severityOf(level);
    if (severity !== -1) this.#severities.set(session, severity);
    return severity !== -1;
  }

  /** Returns the level of a session; undefined if it has not set one. */
  levelOf(session: Session): string | undefined {
    return LEVELS[this.#severities.get(session) ?? -1];
  }

  delete(session: Session): void {
    this.#severities.delete(session);
  }

  /** Returns the level to send to the server, and marks it as sent; undefined if the server has it already. */
  takePendingLevel(): string | undefined {
    let wanted = Number.POSITIVE_INFINITY;
    for (const severity of this.#severities.values()) wanted = Math.min(wanted, severity);
    if (wanted === Number.POSITIVE_INFINITY || wanted === this.#sentSeverity) return undefined;
    this.#sentSeverity = wanted;
    return LEVELS[wanted];
  }

  /** The level that the server was sent last. */
  get sentLevel(): string | undefined {
    return LEVELS[this.#sentSeverity ?? -1];
  }

  /** Called if the server rejected the level, or for a new generation. */
  forgetSentLevel(): void {
    this.#sentSeverity = undefined;
  }

  /** True if no session has set a level. */
  get isEmpty(): boolean {
    return this.#severities.size === 0;
  }

  wants(session: Session, level: unknown): boolean {
    const least = this.#severities.get(session);
    return least !== undefined && severityOf(level) >= least;
  }
}
