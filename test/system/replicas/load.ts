import { readFile } from "node:fs/promises";
import type { Caller } from "./callers.ts";

/** Each of these calls takes this time, so that some are always in flight. */
const SLOW_SHARE = 10;
const SLOW_MS = 25;

export interface FailedCall {
  readonly text: string;
  readonly reason: string;
  readonly sentAtMs: number;
  readonly failedAtMs: number;
}

/** Clients that call a tool without a pause, each with one call in flight. Every call has a text of its own, which is its right result. */
export class Load implements AsyncDisposable {
  readonly right = new Set<string>();
  readonly wrong: string[] = [];
  readonly failed: FailedCall[] = [];
  readonly #callers: readonly Caller[];
  readonly #work: Promise<unknown>;
  readonly #waiting = new Set<() => void>();
  #isStopping = false;

  constructor(callers: readonly Caller[]) {
    this.#callers = callers;
    this.#work = Promise.all(callers.map((caller, index) => this.#callOn(caller, `client-${index}`)));
  }

  /** Resolves when this number of calls has been answered rightly. */
  async waitForCalls(count: number): Promise<void> {
    while (this.right.size < count) await new Promise<void>((resolve) => this.#waiting.add(resolve));
  }

  /** Resolves when the last call has been answered, and one more call of each client. */
  async stop(): Promise<void> {
    this.#isStopping = true;
    await this.#work;
    const before = this.failed.length;
    await Promise.all(this.#callers.map((caller, index) => this.#callOnce(caller, `last-of-client-${index}`, 0)));
    if (this.failed.length > before) throw new Error(`clients cannot go on: ${JSON.stringify(this.failed.slice(before))}`);
    for (const caller of this.#callers) caller.checkSession();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isStopping = true;
    await this.#work;
    await Promise.allSettled(this.#callers.map((caller) => caller[Symbol.asyncDispose]()));
  }

  async #callOn(caller: Caller, name: string): Promise<void> {
    for (let count = 1; !this.#isStopping; count++) {
      await this.#callOnce(caller, `${name}/${count}`, count % SLOW_SHARE === 0 ? SLOW_MS : 0);
    }
  }

  async #callOnce(caller: Caller, text: string, delayMs: number): Promise<void> {
    const sentAtMs = performance.now();
    try {
      const result = await caller.call({ text, delayMs });
      if (result === text) this.right.add(text);
      else this.wrong.push(`${result} instead of ${text}`);
    } catch (error) {
      this.failed.push({ text, reason: String(error), sentAtMs, failedAtMs: performance.now() });
    }
    for (const resolve of this.#waiting) resolve();
    this.#waiting.clear();
  }
}

/** Returns how often the servers have executed each text. */
export async function readLedger(path: string): Promise<Map<string, number>> {
  const executions = new Map<string, number>();
  for (const text of (await readFile(path, "utf8")).split("\n")) {
    if (text !== "") executions.set(text, (executions.get(text) ?? 0) + 1);
  }
  return executions;
}
