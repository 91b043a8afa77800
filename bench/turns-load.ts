// The load of calls on two targets in turns. Both have the same load process, and a slow moment of the machine affects both.

import { setTimeout as sleep } from "node:timers/promises";
import { openSession, runOn } from "./calls-load.ts";
import type { CallsResult, Side, TurnsConfig, TurnsResult, TurnsSummary } from "./load-contract.ts";
import type { McpSession } from "./mcp-session.ts";
import { treeCpuMs } from "./process-cpu.ts";
import { readPath } from "./read-path.ts";
import { median, sum } from "./statistics.ts";

export async function runTurns({ sides, turns, warmupMs, durationMs }: TurnsConfig): Promise<TurnsResult> {
  const [one, other] = [await Player.open(sides[0]), await Player.open(sides[1])];
  for (const player of [one, other]) await player.warmUp(warmupMs);
  for (let turn = 0; turn < turns; turn++) {
    // The sides alternate as the first, so that none of them always comes after the other.
    for (const player of turn % 2 === 0 ? [one, other] : [other, one]) await player.takeTurn(durationMs);
  }
  return { sides: [one.summary(), other.summary()] };
}

class Player {
  readonly #side: Side;
  readonly #session: McpSession;
  readonly #results: CallsResult[] = [];
  #cpuMs = 0;

  private constructor(side: Side, session: McpSession) {
    this.#side = side;
    this.#session = session;
  }

  static async open(side: Side): Promise<Player> {
    return new Player(side, await openSession(side));
  }

  /** The first reading of a path may load code. */
  async warmUp(durationMs: number): Promise<void> {
    await this.#run(durationMs);
  }

  async takeTurn(durationMs: number): Promise<void> {
    const beforeMs = treeCpuMs(this.#side.pid);
    this.#results.push(await this.#run(durationMs));
    this.#cpuMs += treeCpuMs(this.#side.pid) - beforeMs;
  }

  summary(): TurnsSummary {
    return {
      callsPerSecond: sum(this.#results.map(({ callsPerSecond }) => callsPerSecond)) / this.#results.length,
      p99Ms: median(this.#results.map(({ p99Ms }) => p99Ms)),
      cpuMsPerCall: this.#cpuMs / sum(this.#results.map(({ calls }) => calls)),
    };
  }

  async #run(durationMs: number): Promise<CallsResult> {
    const run = runOn(this.#session, { ...this.#side, kind: "calls", warmupMs: 0, durationMs });
    const [result] = await Promise.all([run, this.#readAfter(durationMs / 2)]);
    if (result.errors > 0) throw new Error(`${result.errors} errors, first: ${result.firstError}`);
    return result;
  }

  async #readAfter(delayMs: number): Promise<void> {
    await sleep(delayMs);
    if (this.#side.readPath !== undefined) await readPath(this.#side, this.#side.readPath);
  }
}
