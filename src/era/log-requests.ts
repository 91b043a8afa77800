import type { Exchange } from "../sessions/exchange.ts";
import { LOG_LEVELS } from "./checks/request-check.ts";

/** The requests in flight whose clients want log messages. A log message does not name its request (MCP 2026-07-28, server/utilities/logging). */
export class LogRequests {
  readonly #levels = new Map<Exchange, string>();

  add(exchange: Exchange, level: string): void {
    this.#levels.set(exchange, level);
  }

  delete(exchange: Exchange): void {
    this.#levels.delete(exchange);
  }

  /** Delivers a log message to the only request that wants messages. @returns false if there are several, or none. */
  deliver(text: string, level: string | undefined): boolean {
    const [only, ...others] = this.#levels;
    if (only === undefined || others.length > 0) return false;
    const [exchange, wanted] = only;
    return isAtLeast(level, wanted) && exchange.emit(text);
  }
}

/** True if a message of this level is at least as severe as the wanted one. */
export function isAtLeast(level: string | undefined, wanted: string): boolean {
  return level !== undefined && LOG_LEVELS.includes(level) && LOG_LEVELS.indexOf(level) >= LOG_LEVELS.indexOf(wanted);
}
