import { get } from "node:http";
import type { Config } from "../config/load.ts";
import { bracketed } from "../http/guards/authority.ts";
import { ROUTES } from "../routes.ts";

const TIMEOUT_MS = 3000;

/** Requests `/healthz` of the sidecar at this address. @returns 0 if it is ready, else 1, and a line with the reason. */
export async function healthcheck(config: Pick<Config, "host" | "port">): Promise<{ readonly exitCode: 0 | 1; readonly text: string }> {
  const host = config.host === undefined || config.host === "0.0.0.0" ? "127.0.0.1" : config.host === "::" ? "::1" : config.host;
  return new Promise((resolve) => {
    const request = get(
      { host, port: config.port, path: ROUTES.health.path, signal: AbortSignal.timeout(TIMEOUT_MS), agent: false },
      (response) => {
        response.resume();
        const isReady = response.statusCode === 200;
        resolve({ exitCode: isReady ? 0 : 1, text: isReady ? "ready" : `not ready (HTTP ${response.statusCode})` });
      },
    );
    request.on("error", (error) => resolve({ exitCode: 1, text: `not reachable at ${bracketed(host)}:${config.port} (${error.message})` }));
  });
}
