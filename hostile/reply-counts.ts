// The responses to the attacker, counted by status and code.

import { increment } from "../chaos/tally.ts";
import { BYSTANDER_MARK, FORBIDDEN_MARK } from "./contract.ts";

const SHOWN = 4;
/** Only results are longer than this; errors are short. */
const ERROR_LENGTH = 64 * 1024;

export class ReplyCounts {
  /** Responses that belong to the bystander, and calls that were made although a policy forbids them. */
  readonly breaches: string[] = [];
  readonly #counts = new Map<string, number>();

  add(what: string): void {
    increment(this.#counts, what);
  }

  /** Counts and checks any HTTP response. */
  addReply(status: number, body: string): void {
    this.add(`${status} ${meaningOf(body)}`.trim());
    this.check(body);
  }

  check(body: string): void {
    if (body.includes(BYSTANDER_MARK)) this.#addBreach(`received a text of the bystander: ${around(body, BYSTANDER_MARK)}`);
    if (body.includes(FORBIDDEN_MARK)) this.#addBreach(`ran a forbidden tool: ${around(body, FORBIDDEN_MARK)}`);
  }

  toString(): string {
    const sorted = [...this.#counts].sort(([, left], [, right]) => right - left);
    const shown = sorted.slice(0, SHOWN).map(([what, count]) => (count === 1 ? what : `${count}× ${what}`));
    if (sorted.length > SHOWN) shown.push(`${sorted.length - SHOWN} more`);
    return shown.length === 0 ? "nothing" : shown.join(", ");
  }

  #addBreach(what: string): void {
    if (this.breaches.length < 3) this.breaches.push(what);
  }
}

function meaningOf(body: string): string {
  if (body === "") return "";
  const start = body.slice(0, ERROR_LENGTH);
  const code = /"code":"([A-Z_]+)"/.exec(start)?.[1] ?? /"error":\{[^]*?"code":(-?\d+)/.exec(start)?.[1];
  if (code !== undefined) return code;
  if (start.includes('"isError":true')) return "isError";
  return /"result":/.test(start) || body.length > ERROR_LENGTH ? "result" : "other";
}

function around(text: string, mark: string): string {
  const at = text.indexOf(mark);
  return text.slice(Math.max(0, at - 80), at + 80);
}
