import type { Session } from "./session.ts";

/** Most verbose first (RFC 5424, as MCP 2025-11-25, server/utilities/logging has it). */
const LEVELS: readonly string[] = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

/** Higher is more severe; -1 for what is no level. */
function severityOf(level: unknown): number {
  return typeof level === "string" ? LEVELS.indexOf(level) : -1;
}

/** The log levels that the sessions of a shared server chose: it gets the most verbose of them, each session only what it asked for. */
export class LogLevels {
  readonly #severities = new Map<Session, number>();
  /** What the server was told last, as far as is known. */
  #toldSeverity: number | undefined;

  /** @returns whether it is a level, and so was taken. */
  set(session: Session, level: unknown): boolean {
    const severity = severityOf(level);
    if (severity !== -1) this.#severities.set(session, severity);
    return severity !== -1;
  }

  /** Undefined where the session asked for none. */
  levelOf(session: Session): string | undefined {
    return LEVELS[this.#severities.get(session) ?? -1];
  }

  delete(session: Session): void {
    this.#severities.delete(session);
  }

  /** The level that the server should have and was not told, if there is one; it counts as told from now on. */
  takeUntold(): string | undefined {
    let wanted = Number.POSITIVE_INFINITY;
    for (const severity of this.#severities.values()) wanted = Math.min(wanted, severity);
    if (wanted === Number.POSITIVE_INFINITY || wanted === this.#toldSeverity) return undefined;
    this.#toldSeverity = wanted;
    return LEVELS[wanted];
  }

  /** What the server was told last. */
  get toldLevel(): string | undefined {
    return LEVELS[this.#toldSeverity ?? -1];
  }

  /** The server did not take it, or is a new one. */
  forgetTold(): void {
    this.#toldSeverity = undefined;
  }

  /** Whether any session wants logs at all. */
  get isEmpty(): boolean {
    return this.#severities.size === 0;
  }

  wants(session: Session, level: unknown): boolean {
    const least = this.#severities.get(session);
    return least !== undefined && severityOf(level) >= least;
  }
}
