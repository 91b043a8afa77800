import { type Request, type Response, Router } from "express";
import type { IncomingMessage } from "node:http";
import type { UpstreamStatus } from "../upstream/port.ts";
import { ROUTES } from "../routes.ts";

export interface HealthOptions {
  readonly status: () => UpstreamStatus;
  readonly isDraining: () => boolean;
}

export interface HealthRoutesOptions extends HealthOptions {
  /** Whether somebody may read more than the state: what the server last wrote to stderr is not for everybody. */
  readonly mayReadDetails: (request: IncomingMessage) => boolean;
}

/** `/livez`: the process answers. `/readyz` and `/healthz`: the server has finished its handshake. Their HTTP status is open to everybody. */
export function createHealthRoutes({ status, isDraining, mayReadDetails }: HealthRoutesOptions): Router {
  const readiness = (request: Request, response: Response): void => {
    const { isReady, body } = describeReadiness({ status, isDraining });
    response
      .set("Cache-Control", "no-store")
      .status(isReady ? 200 : 503)
      .json(mayReadDetails(request) ? body : { status: body.status, state: body.state });
  };
  return (
    Router()
      // Express itself would answer in plain text.
      .options(
        [ROUTES.live, ROUTES.ready, ROUTES.health],
        (_request, response) => void response.set("Allow", "GET, HEAD").status(204).end(),
      )
      .get(ROUTES.live, (_request, response) => void response.set("Cache-Control", "no-store").json({ status: "live" }))
      .get([ROUTES.ready, ROUTES.health], readiness)
  );
}

export function describeReadiness({ status, isDraining }: HealthOptions): { readonly isReady: boolean; readonly body: Readiness } {
  const current = isDraining() ? { ...status(), state: "stopping" as const } : status();
  const isReady = current.state === "ready";
  return { isReady, body: describe(current, isReady) };
}

interface Readiness {
  readonly status: "ready" | "not-ready";
  readonly state: UpstreamStatus["state"];
}

function describe(status: UpstreamStatus, isReady: boolean): Readiness & Readonly<Record<string, unknown>> {
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
            kind: lastExit.kind,
            reason: lastExit.reason,
            at: lastExit.at.toISOString(),
            stderrTail: lastExit.stderrTail,
            stderrLastLine: lastExit.stderrTail.at(-1) ?? null,
          },
    nextRetryAt: nextRetryAt?.toISOString() ?? null,
  };
}
