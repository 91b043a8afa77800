// Measures one busy session beside many idle ones, and alone, by turns.

import { type CallsResult, type Endpoint, isCallsResult, isSessionsResult } from "./load-contract.ts";
import type { IdleSessionsResult } from "./results.ts";
import { runLoad } from "./run-load.ts";
import { TargetProcess } from "./target-process.ts";
import { thisBuild } from "./targets.ts";

export const IDLE_SESSIONS = 10_000;

const WARMUP_MS = 1000;
const SCENARIO = { connections: 16, resultBytes: 100 };
/** A single client has three quarters of the sessions at most. */
const TARGET = thisBuild(["--max-sessions", String(2 * IDLE_SESSIONS)]);

export async function measureIdleSessions(turns: number, durationMs: number): Promise<IdleSessionsResult> {
  const result: IdleSessionsResult = { sessionsPerSecond: Number.NaN, alone: [], beside: [] };
  const [alone, beside] = [await TargetProcess.start(TARGET), await TargetProcess.start(TARGET)];
  try {
    const { sessionsPerSecond } = await runLoad({ kind: "sessions", ...endpointOf(beside), sessions: IDLE_SESSIONS }, isSessionsResult);
    result.sessionsPerSecond = sessionsPerSecond;
    const call = async (running: TargetProcess): Promise<CallsResult> =>
      runLoad({ kind: "calls", ...endpointOf(running), ...SCENARIO, warmupMs: WARMUP_MS, durationMs }, isCallsResult);
    for (let turn = 1; turn <= turns; turn += 1) {
      // They alternate as the first of a turn.
      if (turn % 2 !== 0) result.alone.push(await call(alone));
      result.beside.push(await call(beside));
      if (turn % 2 === 0) result.alone.push(await call(alone));
    }
    return result;
  } finally {
    await Promise.all([alone.stop(), beside.stop()]);
  }
}

function endpointOf({ port, target }: TargetProcess): Endpoint {
  return { port, path: "/mcp", token: target.token };
}
