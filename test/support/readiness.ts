import { send } from "./http-client.ts";
import type { RunningSidecar } from "./running-sidecar.ts";

export interface Readiness {
  readonly httpStatus: number;
  readonly status: string;
  readonly state: string;
  readonly pid: number | null;
  readonly generation: number;
  readonly restarts: number;
  readonly lastExit: {
    readonly generation: number;
    readonly exitCode: number | null;
    readonly signal: string | null;
    readonly kind: string;
    readonly reason: string;
    readonly at: string;
    readonly stderrTail: readonly string[];
    readonly stderrLastLine: string | null;
  } | null;
  readonly nextRetryAt: string | null;
}

export async function readReadiness(sidecar: RunningSidecar): Promise<Readiness> {
  const { status, body } = await send(`${sidecar.origin}/readyz`, { method: "GET" });
  return { httpStatus: status, ...(JSON.parse(body) as Omit<Readiness, "httpStatus">) };
}

export async function waitForGeneration(sidecar: RunningSidecar, generation: number): Promise<void> {
  await sidecar.waitForLog("mcp server ready", (line) => line["generation"] === generation);
}
