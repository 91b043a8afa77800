import { type Request, type Response, Router } from "express";
import type { UpstreamStatus } from "../mux/upstream.ts";

export interface HealthOptions {
  readonly status: () => UpstreamStatus;
  readonly isDraining: () => boolean;
}

/** `/livez`: the process answers. `/readyz` and `/healthz`: the server has finished its handshake. Open to everybody, without secrets. */
export function createHealthRoutes({ status, isDraining }: HealthOptions): Router {
  const readiness = (_request: Request, response: Response): void => {
    const current = isDraining() ? { ...status(), state: "stopping" as const } : status();
    const isReady = current.state === "ready";
    response
      .set("Cache-Control", "no-store")
      .status(isReady ? 200 : 503)
      .json(describe(current, isReady));
  };
  return Router()
    .get("/livez", (_request, response) => void response.set("Cache-Control", "no-store").json({ status: "live" }))
    .get(["/readyz", "/healthz"], readiness);
}

function describe(status: UpstreamStatus, isReady: boolean): object {
  const { state, pid, generation, restarts, lastExit, nextRetryAt } = status;
  return {
    status: isReady ? "ready" : "not-ready",
    state,
    pid: pid ?? null,
    generation,
    restarts,
    lastExit:
      lastExit === undefined
        ? null
        : {
            generation: lastExit.generation,
            exitCode: lastExit.exitCode ?? null,
            signal: lastExit.signal ?? null,
            reason: lastExit.reason,
            at: lastExit.at.toISOString(),
            stderrLastLine: lastExit.stderrLastLine ?? null,
          },
    nextRetryAt: nextRetryAt?.toISOString() ?? null,
  };
}
