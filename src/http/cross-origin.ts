import cors, { type CorsOptions } from "cors";
import type { IncomingMessage } from "node:http";
import { SidecarError } from "../errors.ts";
import type { RouteEntry } from "../routes.ts";
import { type AllowedOrigins, createHostCheck, createOriginCheck, type HostCheckOptions, targetAuthority } from "./origin-guard.ts";
import { refuse } from "./refuse.ts";
import type { Route } from "./route.ts";

export interface CrossOriginOptions extends HostCheckOptions {
  readonly allowedOrigins: AllowedOrigins;
}

/** Chromium remembers a preflight no longer. */
const PREFLIGHT_MAX_AGE_S = 7200;

/** The origin is repeated, never `*`; credentials are not offered, since nothing here reads cookies. */
const CORS_OPTIONS = {
  origin: true,
  allowedHeaders: [
    "Content-Type",
    "Accept",
    "Authorization",
    "Mcp-Session-Id",
    "MCP-Protocol-Version",
    "Last-Event-ID",
    "Mcp-Method",
    "Mcp-Name",
  ],
  exposedHeaders: ["Mcp-Session-Id", "MCP-Protocol-Version", "Retry-After", "WWW-Authenticate"],
  maxAge: PREFLIGHT_MAX_AGE_S,
  preflightContinue: true,
} as const satisfies CorsOptions;

/**
 * Makes the check of where a request comes from: pages of other sites may not ask, nor those that have made a name of theirs one of this
 * machine (DNS rebinding). Only browsers send `Origin`: without one there is no page to keep away.
 *
 * @returns why a request is refused, if it is.
 */
export function createCrossOriginCheck(options: CrossOriginOptions): (request: IncomingMessage) => SidecarError | undefined {
  const isOriginAllowed = createOriginCheck(options.allowedOrigins);
  const isHostAllowed = createHostCheck(options);

  /** Both names count where the request line has one, too. A request without any is HTTP/1.0, which no browser speaks. */
  function refusedHost({ headers, url = "" }: IncomingMessage): string | undefined {
    if (isHostAllowed === undefined) return undefined;
    return [headers.host, targetAuthority(url)].find((host) => host !== undefined && !isHostAllowed(host));
  }

  return (request) => {
    const { origin } = request.headers;
    if (origin !== undefined && !isOriginAllowed(origin)) return notAllowed("ORIGIN_NOT_ALLOWED", origin);
    const host = refusedHost(request);
    return host === undefined ? undefined : notAllowed("HOST_NOT_ALLOWED", host);
  };
}

/** Applies the check to a route, before it sees the request, and lets pages of allowed origins read its answers, errors included. */
export function createCrossOriginGuard(
  { methods }: RouteEntry,
  check: (request: IncomingMessage) => SidecarError | undefined,
): (route: Route) => Route {
  const setCorsHeaders = cors({ ...CORS_OPTIONS, methods: [...methods, "OPTIONS"] });
  return (route) => (request, response) => {
    const refusal = check(request);
    if (request.headers.origin !== undefined && refusal?.code !== "ORIGIN_NOT_ALLOWED") setCorsHeaders(request, response, () => undefined);
    if (refusal !== undefined) return refuse(request, response, refusal);
    route(request, response);
  };
}

function notAllowed(code: "ORIGIN_NOT_ALLOWED" | "HOST_NOT_ALLOWED", value: string): SidecarError {
  const [what, variable] = code === "ORIGIN_NOT_ALLOWED" ? ["origin", "ALLOWED_ORIGINS"] : ["host", "ALLOWED_HOSTS"];
  const message = `The ${what} ${JSON.stringify(value)} is not allowed; to allow it, add it to CLAW_MCP_STDIO_${variable}.`;
  return new SidecarError(code, message);
}
