import cors, { type CorsOptions } from "cors";
import type { IncomingMessage } from "node:http";
import { SidecarError } from "../../errors.ts";
import type { RouteEntry } from "../../routes.ts";
import { parseAuthority, parseOrigin } from "./authority.ts";
import { type AllowedOrigins, createHostCheck, createOriginCheck, type HostCheckOptions, targetAuthority } from "./origin-guard.ts";
import { reject } from "../reject.ts";
import type { Route, RoutedRequest } from "../route.ts";

export interface CrossOriginOptions extends HostCheckOptions {
  readonly allowedOrigins: AllowedOrigins;
  /** True for a request of the sidecar's own page, which needs no allowed origin. Undefined without a page. */
  readonly isSameOrigin?: ((request: IncomingMessage) => boolean) | undefined;
}

/** The `Origin` of a page without one, such as a local file. */
const NO_ORIGIN = "null";

/** The longest time for which Chromium caches a preflight. */
const PREFLIGHT_MAX_AGE_S = 7200;

/** The prefix, and a token of RFC 9110 §5.6.2. */
const PARAM_HEADER = /^mcp-param-[!#$%&'*+\-.^_`|~0-9a-z]+$/i;

/** Responses name the origin of the request instead of `*`. Credentials are not allowed, since the sidecar does not use cookies. */
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
    "traceparent",
    "tracestate",
    "baggage",
  ],
  exposedHeaders: ["Mcp-Session-Id", "MCP-Protocol-Version", "Retry-After", "WWW-Authenticate"],
  maxAge: PREFLIGHT_MAX_AGE_S,
  preflightContinue: true,
} as const satisfies CorsOptions;

/**
 * Creates a check that rejects requests of web pages of other sites, and of pages whose own host name resolves to this machine (DNS
 * rebinding). Only browsers send `Origin`: a request without it is not checked for its origin.
 *
 * @returns a function that returns the error of a rejected request, or undefined.
 */
export function createCrossOriginCheck(options: CrossOriginOptions): (request: IncomingMessage) => SidecarError | undefined {
  const isOriginAllowed = createOriginCheck(options.allowedOrigins);
  const isHostAllowed = createHostCheck(options);
  const { isSameOrigin = () => false } = options;

  /** Returns the host of the `Host` header or request line that is not allowed. A request with neither is HTTP/1.0, so not of a browser. */
  function rejectedHost({ headers, url = "", originalUrl = url }: RoutedRequest): string | undefined {
    if (isHostAllowed === undefined) return undefined;
    return [headers.host, targetAuthority(originalUrl)].find((host) => host !== undefined && !isHostAllowed(host));
  }

  return (request) => {
    const { origin } = request.headers;
    if (origin !== undefined && !isOriginAllowed(origin) && !isSameOrigin(request)) return notAllowed("ORIGIN_NOT_ALLOWED", origin);
    const host = rejectedHost(request);
    return host === undefined ? undefined : notAllowed("HOST_NOT_ALLOWED", host);
  };
}

/** Creates a guard that applies the check before a route, and lets pages of allowed origins read all responses, errors included. */
export function createCrossOriginGuard(
  { methods }: RouteEntry,
  check: (request: IncomingMessage) => SidecarError | undefined,
): (route: Route) => Route {
  const setCorsHeaders = cors((request: IncomingMessage, callback: (error: null, options: CorsOptions) => void) => {
    callback(null, { ...CORS_OPTIONS, allowedHeaders: allowedHeaders(request), methods: [...methods, "OPTIONS"] });
  });
  return (route) => (request, response) => {
    const rejection = check(request);
    if (request.headers.origin !== undefined && rejection?.code !== "ORIGIN_NOT_ALLOWED")
      setCorsHeaders(request, response, () => undefined);
    if (rejection !== undefined) return reject(request, response, rejection);
    route(request, response);
  };
}

/** Returns the headers that a page may send. Servers choose the names of `Mcp-Param-*` (MCP 2026-07-28, basic/transports, custom headers). */
function allowedHeaders({ headers }: IncomingMessage): string[] {
  const requested = headers["access-control-request-headers"]?.split(",").map((name) => name.trim()) ?? [];
  return [...CORS_OPTIONS.allowedHeaders, ...requested.filter((name) => PARAM_HEADER.test(name))];
}

function notAllowed(code: "ORIGIN_NOT_ALLOWED" | "HOST_NOT_ALLOWED", value: string): SidecarError {
  const [header, variable, shown] =
    code === "ORIGIN_NOT_ALLOWED"
      ? ["origin", "ALLOWED_ORIGINS", value === NO_ORIGIN ? value : parseOrigin(value)]
      : ["host", "ALLOWED_HOSTS", shownAuthority(value)];
  // Of a malformed value nothing is quoted: the message is logged, and it may have a password.
  if (shown === undefined) return new SidecarError(code, `The ${header} is malformed.`);
  return new SidecarError(code, `The ${header} "${shown}" is not allowed; to allow it, add it to CLAW_MCP_STDIO_${variable}.`);
}

function shownAuthority(value: string): string | undefined {
  const parsed = parseAuthority(value);
  if (parsed === undefined) return undefined;
  const { host, port } = parsed;
  return port === undefined ? host : `${host}:${port}`;
}
