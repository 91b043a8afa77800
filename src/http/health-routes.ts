import type { IncomingMessage, ServerResponse } from "node:http";
import type { UpstreamStatus } from "../upstream/port.ts";
import { sendJson } from "./json-response.ts";
import { discardBody } from "./reject.ts";
import type { NamedRoute, PrincipalRoute } from "./route.ts";

export interface HealthOptions {
  readonly status: () => UpstreamStatus;
  readonly isDraining: () => boolean;
  /** A replacer for `JSON.stringify` that masks secrets. */
  readonly replacer: (key: string, value: unknown) => unknown;
}

export interface HealthRoutesOptions extends HealthOptions {
  /** True if the client may read more than the state, such as the last lines that the server wrote to stderr. */
  readonly mayReadDetails: (request: IncomingMessage) => boolean;
}

/**
 * Creates the health routes. `/livez` reports that the process answers; `/readyz` and `/healthz` report that the server has finished its
 * handshake. Their HTTP status needs no token.
 */
export function createHealthRoutes(options: HealthRoutesOptions): readonly NamedRoute[] {
  const { mayReadDetails, replacer } = options;
  const send = (request: IncomingMessage, response: ServerResponse, httpStatus: number, body: object): void => {
    sendJson(response, httpStatus, JSON.stringify(body, replacer), {
      "Content-Type": "application/json; charset=utf-8",
      "Cache-Control": "no-store",
    });
    discardBody(request);
  };
  const readiness: PrincipalRoute = (request, response) => {
    const { isReady, body } = describeReadiness(options);
    const { status, state } = body;
    send(request, response, isReady ? 200 : 503, mayReadDetails(request) ? body : { status, state });
  };
  return [
    ["live", (request, response) => send(request, response, 200, { status: "live" })],
    ["ready", readiness],
    ["health", readiness],
  ];
}

export function describeReadiness({ status, isDraining }: Pick<HealthOptions, "status" | "isDraining">): {
  readonly isReady: boolean;
  readonly body: Readiness;
} {
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
