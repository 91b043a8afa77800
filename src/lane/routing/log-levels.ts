import type { Caller } from "../../sessions/caller.ts";
import { LOG_LEVELS as LEVELS } from "../../protocol/log-level.ts";

/** Returns the severity of a level, from 0; -1 if it is not a level. */
function severityOf(level: unknown): number {
  return typeof level === "string" ? LEVELS.indexOf(level) : -1;
}

/** The log levels of a shared server's callers. The server gets the most verbose one; each caller gets messages from its level up. */
export class LogLevels {
  readonly #severities = new Map<Caller, number>();
  /** The number of callers of each severity: a search of all callers would cost more beside many idle ones. */
  readonly #counts = LEVELS.map(() => 0);
  /** The severity that the server was sent last; undefined if it is unknown. */
  #sentSeverity: number | undefined;

  /** @returns false if it is not a level, and was ignored. */
  set(caller: Caller, level: unknown): boolean {
    const severity = severityOf(level);
    if (severity === -1) return false;
    this.delete(caller);
    this.#severities.set(caller, severity);
    this.#count(severity, 1);
    return true;
  }

  /** Returns the level of a caller; undefined if it has not set one. */
  levelOf(caller: Caller): string | undefined {
    return LEVELS[this.#severities.get(caller) ?? -1];
  }

  delete(caller: Caller): void {
    const severity = this.#severities.get(caller);
    if (severity === undefined) return;
    this.#severities.delete(caller);
    this.#count(severity, -1);
  }

  /** Returns the level to send to the server, and marks it as sent; undefined if the server has it already. */
  takePendingLevel(): string | undefined {
    const wanted = this.#counts.findIndex((count) => count > 0);
    if (wanted === -1 || wanted === this.#sentSeverity) return undefined;
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

  /** True if no caller has set a level. */
  get isEmpty(): boolean {
    return this.#severities.size === 0;
  }

  wants(caller: Caller, level: unknown): boolean {
    const least = this.#severities.get(caller);
    return least !== undefined && severityOf(level) >= least;
  }

  #count(severity: number, change: number): void {
    this.#counts[severity] = (this.#counts[severity] ?? 0) + change;
  }
}
