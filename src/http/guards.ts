import { parseAuthority, parseOrigin, isLocalhost, isLoopback } from "../config/authority.ts";
import type { IncomingMessage, ServerResponse } from "node:http";
import cors from "cors";
import type { CorsOptions } from "cors";
import { SidecarError } from "../mcp/errors.ts";
import { allowHeader, type RouteEntry, type RouteName, ROUTES } from "../routes.ts";
import { discardBody, type Identify, type PrincipalRoute, reject, type Route, type RoutedRequest } from "./response.ts";

/** Creates a guard that rejects requests without a valid token. @param identify undefined if no token is configured and all may pass. */
function createTokenGuard(identify: Identify | undefined): (route: PrincipalRoute) => Route {
  if (identify === undefined) return (route) => (request, response) => route(request, response, undefined);
  return (route) => (request, response) => {
    const principal = identify(request.headers.authorization);
    if (principal === undefined) rejectUnauthorized(request, response);
    else route(request, response, principal);
  };
}

/**
 * Rejects a request whose token is missing, not valid, or not the session's. The last two get the same response, so that it does not
 * reveal which tokens are valid.
 */
export function rejectUnauthorized(request: IncomingMessage, response: ServerResponse): void {
  const { authorization } = request.headers;
  reject(request, response, new SidecarError("UNAUTHORIZED", describe(authorization)), { "WWW-Authenticate": challenge(authorization) });
}

function describe(authorization: string | undefined): string {
  if (authorization === undefined) return "The Authorization header is missing; send a bearer token.";
  if (!/^bearer(?: |$)/i.test(authorization)) return "The Authorization header does not begin with `Bearer `, followed by a token.";
  return "The Authorization header has no bearer token that is valid for this request.";
}

function challenge(authorization: string | undefined): string {
  return authorization === undefined ? 'Bearer realm="mcp"' : 'Bearer realm="mcp", error="invalid_token"';
}

/** `*` for every origin; undefined for the default, the origins of this machine. */
type AllowedOrigins = "*" | readonly string[] | undefined;

const LOCAL_ORIGIN = /^https?:\/\/(?:localhost|127\.0\.0\.1|\[::1\])(?::\d+)?$/;
/** The possible ports of a `Host` without a port. Only a proxy that terminates TLS in front of the sidecar knows the actual one. */
const PORTS_OF_BROWSERS = [80, 443];

/** Creates the check of the `Origin` header. It does not compare the origin with the host: DNS rebinding makes them equal. */
export function createOriginCheck(allowed: AllowedOrigins): (origin: string) => boolean {
  if (allowed === "*") return () => true;
  if (allowed === undefined) return (origin) => LOCAL_ORIGIN.test(parseOrigin(origin) ?? "");
  const listed = new Set(allowed);
  return (origin) => listed.has(parseOrigin(origin) ?? "");
}

interface HostCheckOptions {
  /**
   * `host` for any port, or `host:port`, each also as `*.host` for all names below a host. `*` allows all hosts. The default, undefined, allows
   * only this machine if `listenHost` is loopback, else all hosts.
   */
  readonly allowedHosts: "*" | readonly string[] | undefined;
  /** Undefined for all interfaces. */
  readonly listenHost: string | undefined;
  /** Rejects public host names, which an attacker's page may have, if all hosts would be allowed otherwise. */
  readonly rejectsRebindable?: boolean;
}

/** Endings of names that cannot be registered, so that an attacker's DNS server cannot resolve them. */
const UNREGISTRABLE_NAME = /(?:^|\.)(?:local|internal|localhost|svc)$/;
const IPV4_ADDRESS = /^\d+\.\d+\.\d+\.\d+$/;

/**
 * Creates the check of the `Host` header, or of the authority in the request line.
 *
 * @returns undefined if every host is allowed.
 */
export function createHostCheck(options: HostCheckOptions): ((authority: string) => boolean) | undefined {
  const { allowedHosts, listenHost, rejectsRebindable = false } = options;
  const allowsAll = allowedHosts === "*" || (allowedHosts === undefined && !isLoopback(listenHost));
  if (allowsAll) return rejectsRebindable ? (each) => !isRebindable(each) : undefined;
  const listed = new Set(allowedHosts);
  const endings = allowedHosts?.filter((host) => host.startsWith("*.")).map((host) => host.slice(1)) ?? [];
  const isListed = (host: string): boolean =>
    listed.has(host) || endings.some((ending) => host.length > ending.length && host.endsWith(ending));
  // Clients usually send the same host with each request.
  let lastAllowed: string | undefined;

  return (authority) => {
    if (authority === lastAllowed) return true;
    const parsed = parseAuthority(authority);
    if (parsed === undefined) return false;
    const { host, port } = parsed;
    const ports = port === undefined ? PORTS_OF_BROWSERS : [port];
    if (!isLocalhost(host) && !isListed(host) && !ports.some((each) => isListed(`${host}:${each}`))) return false;
    lastAllowed = authority;
    return true;
  };
}

/** A request target in the absolute form (RFC 9112 §3.2.2), with any scheme: its authority, and the rest. */
const ABSOLUTE_FORM = /^[a-z][a-z\d+.-]*:\/\/([^/?]*)(.*)$/is;

/** Returns the authority of a request target in the absolute form, which replaces the `Host` header. */
export function targetAuthority(target: string): string | undefined {
  return target.startsWith("/") ? undefined : ABSOLUTE_FORM.exec(target)?.[1];
}

/** Returns the path and query of a request target, beginning with a slash; undefined if it has none, as `*`. */
export function pathAndQuery(target: string): string | undefined {
  if (target.startsWith("/")) return target;
  const rest = ABSOLUTE_FORM.exec(target)?.[2];
  return rest === undefined || rest.startsWith("/") ? rest : `/${rest}`;
}

/** True if DNS rebinding can use the host: it is neither an address nor a name of a cluster or LAN. */
function isRebindable(authority: string): boolean {
  const host = parseAuthority(authority)?.host;
  if (host === undefined) return true;
  return host.includes(".") && !IPV4_ADDRESS.test(host) && !host.startsWith("[") && !UNREGISTRABLE_NAME.test(host);
}

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
function createCrossOriginCheck(options: CrossOriginOptions): (request: IncomingMessage) => SidecarError | undefined {
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
function createCrossOriginGuard(
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

/** Answers OPTIONS requests, and passes all others to the route. */
export function answerOptions(entry: Pick<RouteEntry, "methods">, route: Route): Route {
  const allow = allowHeader(entry);
  return (request, response) => {
    if (request.method !== "OPTIONS") return route(request, response);
    response.writeHead(204, { Allow: allow }).end();
    discardBody(request);
  };
}

/** Rejects methods that the route does not support. @param hint the end of the message. */
function guardMethod(entry: RouteEntry, route: PrincipalRoute, hint = ""): PrincipalRoute {
  const { methods } = entry;
  const allow = allowHeader(entry);
  return (request, response, principal) => {
    const { method = "" } = request;
    if (methods.includes(method)) return route(request, response, principal);
    const error = new SidecarError("METHOD_NOT_ALLOWED", `This path does not support ${method}; use ${methods.join(", ")}.${hint}`);
    reject(request, response, error, { Allow: allow });
  };
}

/** The values of `Sec-Fetch-Site` for the page itself, and for an address that a person has entered. */
const SAME_ORIGIN_SITES: ReadonlySet<string> = new Set(["same-origin", "none"]);

/**
 * Creates a function that returns true for a request of the sidecar's own page: its `Origin` equals its `Host`. DNS rebinding makes them equal
 * too. So, without a token, the host must be an address or a name that cannot be registered.
 */
function createSameOriginTest(options: HostCheckOptions, hasToken: boolean): (request: IncomingMessage) => boolean {
  const isSafeHost = createHostCheck({ ...options, rejectsRebindable: !hasToken }) ?? ((): boolean => true);
  return ({ headers: { origin, host = "" } }) => {
    const named = parseAuthority(host);
    const page = parseAuthority(/^https?:\/\/(?<authority>.+)$/.exec(parseOrigin(origin ?? "") ?? "")?.groups?.["authority"] ?? "");
    if (named === undefined || page === undefined) return false;
    return named.host === page.host && named.port === page.port && isSafeHost(host);
  };
}

/** A header that a page of another origin cannot send without permission. Some browsers send neither `Origin` nor `Sec-Fetch-Site` to addresses without TLS. */
const PAGE_HEADER = "claw-mcp-stdio-page";

/** Creates a guard that rejects all pages but the sidecar's own, which sends the header above. */
function createSameOriginGuard(options: CrossOriginOptions): (route: Route) => Route {
  const check = createCrossOriginCheck({ ...options, allowedOrigins: [] });
  return (route) => (request, response) => {
    const site = request.headers["sec-fetch-site"]?.toString();
    const rejection = check(request);
    if (
      rejection?.code === "ORIGIN_NOT_ALLOWED" ||
      (site !== undefined && !SAME_ORIGIN_SITES.has(site)) ||
      request.headers[PAGE_HEADER] === undefined
    ) {
      return reject(request, response, new SidecarError("ORIGIN_NOT_ALLOWED", "Only the sidecar's own page may read this.", {}, "page"));
    }
    if (rejection !== undefined) return reject(request, response, rejection);
    route(request, response);
  };
}

interface RouteGuardOptions extends Omit<CrossOriginOptions, "isSameOrigin"> {
  /** Undefined if no token is configured. */
  readonly identify: Identify | undefined;
  readonly hasPage: boolean;
  /** Undefined for a listener without the endpoint. */
  readonly endpointPath: string | undefined;
}

/** The guards of a listener: origin, host, token and method. */
interface RouteGuard {
  /** Returns the route with the guards of its entry in `ROUTES`. */
  readonly guard: (name: RouteName, route: PrincipalRoute) => Route;
  /** True if the client may read more than the state. */
  readonly mayReadDetails: (request: IncomingMessage) => boolean;
}

export function createRouteGuard({ identify, hasPage, endpointPath, ...options }: RouteGuardOptions): RouteGuard {
  const hasToken = identify !== undefined;
  const isSameOrigin = hasPage ? createSameOriginTest(options, hasToken) : undefined;
  const checkCaller = createCrossOriginCheck({ ...options, isSameOrigin });
  // Browsers send no `Origin` if a page reads from its own host.
  const readerOptions = { ...options, isSameOrigin, rejectsRebindable: !hasToken };
  const checkReader = createCrossOriginCheck(readerOptions);
  const guardToken = createTokenGuard(identify);
  // Clients may have the URL without its path.
  const pageHint = endpointPath === undefined ? "" : ` The MCP endpoint is ${endpointPath}.`;

  function guard(name: RouteName, route: PrincipalRoute): Route {
    const entry: RouteEntry = ROUTES[name];
    const offered = guardMethod(entry, route, name === "page" ? pageHint : "");
    if (!entry.needsToken) return answerOptions(entry, (request, response) => offered(request, response, undefined));
    const guardOrigin = entry.isSameOriginOnly
      ? createSameOriginGuard(readerOptions)
      : createCrossOriginGuard(entry, entry.isForOperators ? checkReader : checkCaller);
    // The guard of the token comes last, because a browser's preflight request has no token.
    return guardOrigin(answerOptions(entry, guardToken(offered)));
  }

  return {
    guard,
    mayReadDetails: (request) => checkReader(request) === undefined && (!hasToken || identify(request.headers.authorization) !== undefined),
  };
}
