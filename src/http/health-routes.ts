import type { IncomingMessage, ServerResponse } from "node:http";
import type { UpstreamStatus } from "../upstream/port.ts";
import { sendJson } from "./json-response.ts";
import { discardBody } from "./reject.ts";
import type { NamedRoute, PrincipalRoute } from "./route.ts";

export interface HealthOptions {
  readonly status: () => { readonly upstream: UpstreamStatus };
  /** A replacer for `JSON.stringify` that masks secrets. */
  readonly replacer: (key: string, value: unknown) => unknown;
  /** True if the client may read more than the state, such as the last lines that the server wrote to stderr. */
  readonly mayReadDetails: (request: IncomingMessage) => boolean;
}

/**
 * Creates the health routes. `/livez` reports that the process answers; `/readyz` and `/healthz` report that the server has finished its
 * handshake. Their HTTP status needs no token.
 */
export function createHealthRoutes(options: HealthOptions): readonly NamedRoute[] {
  const { status: readStatus, mayReadDetails, replacer } = options;
  const send = (request: IncomingMessage, response: ServerResponse, httpStatus: number, body: object): void => {
    sendJson(response, httpStatus, JSON.stringify(body, replacer), {
      "Content-Type": "application/json; charset=utf-8",
      "Cache-Control": "no-store",
    });
    discardBody(request);
  };
  const readiness: PrincipalRoute = (request, response) => {
    const { isReady, body } = describeReadiness(readStatus().upstream);
    const { status, state } = body;
    send(request, response, isReady ? 200 : 503, mayReadDetails(request) ? body : { status, state });
  };
  return [
    ["live", (request, response) => send(request, response, 200, { status: "live" })],
    ["ready", readiness],
    ["health", readiness],
  ];
}

export function describeReadiness(status: UpstreamStatus): { readonly isReady: boolean; readonly body: Readiness } {
  const isReady = status.state === "ready";
  return { isReady, body: describe(status, isReady) };
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
            likelyCause: lastExit.likelyCause ?? null,
            at: lastExit.at.toISOString(),
            stderrTail: lastExit.stderrTail,
            stderrLastLine: lastExit.stderrTail.at(-1) ?? null,
          },
    nextRetryAt: nextRetryAt?.toISOString() ?? null,
  };
}
