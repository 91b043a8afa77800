import type { IncomingMessage, RequestListener, ServerResponse } from "node:http";
import cors from "cors";
import type { CorsOptions } from "cors";
import { isLocalhost, isLoopback, parseAuthority, parseOrigin } from "../config/authority.ts";
import type { Config } from "../config/load.ts";
import type { Context } from "../context.ts";
import { SidecarError } from "../mcp/errors.ts";
import { allowHeader, type RouteEntry, type RouteName, ROUTES } from "../routes.ts";
import type { AuthTokens } from "./auth-tokens.ts";
import { discardBody, reject, type Route, type RoutedRequest } from "./response.ts";

/** An invalid token and one of another session get the same response, which does not reveal the valid ones. */
export function rejectUnauthorized(response: ServerResponse): void {
  const { authorization } = response.req.headers;
  const problem =
    authorization === undefined
      ? "is missing; send a bearer token"
      : /^bearer(?: |$)/i.test(authorization)
        ? "has no bearer token that is valid for this request"
        : "does not begin with `Bearer `, followed by a token";
  const challenge = authorization === undefined ? 'Bearer realm="mcp"' : 'Bearer realm="mcp", error="invalid_token"';
  reject(response, new SidecarError("UNAUTHORIZED", `The Authorization header ${problem}.`), { "WWW-Authenticate": challenge });
}

const LOCAL_ORIGIN = /^https?:\/\/(?:localhost|127\.0\.0\.1|\[::1\])(?::\d+)?$/;
/** A `Host` without a port has one of these. Only a proxy that terminates TLS knows which. */
const PORTS_OF_BROWSERS = [80, 443];

/** The origin is not compared with the host: DNS rebinding makes them equal. @param allowed undefined for the origins of this machine. */
export function createOriginCheck(allowed: Config["allowedOrigins"]): (origin: string) => boolean {
  if (allowed === "*") return () => true;
  if (allowed === undefined) return (origin) => LOCAL_ORIGIN.test(parseOrigin(origin) ?? "");
  const listed = new Set(allowed);
  return (origin) => listed.has(parseOrigin(origin) ?? "");
}

/** Endings of names that cannot be registered, so that an attacker's DNS server cannot resolve them. */
const UNREGISTRABLE_NAME = /(?:^|\.)(?:local|internal|localhost|svc)$/;
const IPV4_ADDRESS = /^\d+\.\d+\.\d+\.\d+$/;

/**
 * @param allowed `*`, or each as `host` for any port, `host:port` or `*.host`; undefined for only this machine if `listenHost` is loopback, else all.
 * @param listenHost undefined for all interfaces.
 * @param rejectsRebindable rejects public names, which an attacker's page may have, if all hosts would be allowed otherwise.
 * @returns undefined if every host is allowed.
 */
export function createHostCheck(
  allowed: Config["allowedHosts"],
  listenHost: string | undefined,
  rejectsRebindable = false,
): ((authority: string) => boolean) | undefined {
  const allowsAll = allowed === "*" || (allowed === undefined && !isLoopback(listenHost));
  if (allowsAll) return rejectsRebindable ? (each) => !isRebindable(each) : undefined;
  const listed = new Set(allowed);
  const endings = allowed?.filter((host) => host.startsWith("*.")).map((host) => host.slice(1)) ?? [];
  const isListed = (host: string): boolean =>
    listed.has(host) || endings.some((ending) => host.length > ending.length && host.endsWith(ending));
  return (authority) => {
    const parsed = parseAuthority(authority);
    if (parsed === undefined) return false;
    const { host, port } = parsed;
    const ports = port === undefined ? PORTS_OF_BROWSERS : [port];
    return isLocalhost(host) || isListed(host) || ports.some((each) => isListed(`${host}:${each}`));
  };
}

/** A request target in the absolute form (RFC 9112 §3.2.2), with any scheme: its authority, and the rest. */
const ABSOLUTE_FORM = /^[a-z][a-z\d+.-]*:\/\/([^/?]*)(.*)$/is;

/** It replaces the `Host` header (RFC 9112 §3.2.2). */
export function targetAuthority(target: string): string | undefined {
  return ABSOLUTE_FORM.exec(target)?.[1];
}

/** @returns undefined for `*`. */
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

/** Chromium caches a preflight for no longer. */
const PREFLIGHT_MAX_AGE_S = 7200;

/** The prefix, and a token of RFC 9110 §5.6.2. */
const PARAM_HEADER = /^mcp-param-[!#$%&'*+\-.^_`|~0-9a-z]+$/i;

/** Responses name the origin instead of `*`. The sidecar uses no cookies, so credentials are not allowed. */
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

/** Rejects pages of other sites, and those whose own host name resolves to this machine (DNS rebinding). Only browsers send `Origin`. */
function createCrossOriginCheck(
  isOriginAllowed: (origin: string) => boolean,
  isHostAllowed: ReturnType<typeof createHostCheck>,
  isOwnPage: (request: IncomingMessage) => boolean,
): (request: RoutedRequest) => SidecarError | undefined {
  // Clients usually send the same host with each request.
  let lastAllowed: string | undefined;

  return (request) => {
    const { headers, url = "", originalUrl = url } = request;
    const { origin, host } = headers;
    if (origin !== undefined && !isOriginAllowed(origin) && !isOwnPage(request)) {
      // The origin of a page without one, such as a local file, is `null`.
      return notAllowed("ORIGIN_NOT_ALLOWED", origin === "null" ? origin : parseOrigin(origin));
    }
    if (isHostAllowed === undefined) return undefined;
    // A request with neither is HTTP/1.0, so not of a browser.
    const authority = originalUrl.startsWith("/") ? undefined : targetAuthority(originalUrl);
    for (const named of [host, authority]) {
      if (named === undefined || named === lastAllowed) continue;
      if (!isHostAllowed(named)) {
        const parsed = parseAuthority(named);
        return notAllowed("HOST_NOT_ALLOWED", parsed && (parsed.port === undefined ? parsed.host : `${parsed.host}:${parsed.port}`));
      }
      lastAllowed = named;
    }
    return undefined;
  };
}

/** @param shown undefined for a malformed value, of which nothing is quoted: it may have a password, and the message is logged. */
function notAllowed(code: "ORIGIN_NOT_ALLOWED" | "HOST_NOT_ALLOWED", shown: string | undefined): SidecarError {
  const [header, variable] = code === "HOST_NOT_ALLOWED" ? ["host", "ALLOWED_HOSTS"] : ["origin", "ALLOWED_ORIGINS"];
  if (shown === undefined) return new SidecarError(code, `The ${header} is malformed.`);
  return new SidecarError(code, `The ${header} "${shown}" is not allowed; to allow it, add it to CLAW_MCP_STDIO_${variable}.`);
}

/** Servers choose the names of `Mcp-Param-*` (MCP 2026-07-28, basic/transports, custom headers). */
function allowedHeaders({ headers }: IncomingMessage): string[] {
  const requested = headers["access-control-request-headers"]?.split(",").map((name) => name.trim()) ?? [];
  return [...CORS_OPTIONS.allowedHeaders, ...requested.filter((name) => PARAM_HEADER.test(name))];
}

/** The values of `Sec-Fetch-Site` for the page itself, and for an address that a person has entered. */
const SAME_ORIGIN_SITES: ReadonlySet<string> = new Set(["same-origin", "none"]);

/**
 * True for a request of the sidecar's own page: its `Origin` equals its `Host`. DNS rebinding makes them equal too, so without a token the
 * host must be an address or a name that cannot be registered.
 */
function createOwnPageTest(isSafeHost: ReturnType<typeof createHostCheck>): (request: IncomingMessage) => boolean {
  return ({ headers: { origin = "", host = "" } }) => {
    const [scheme] = /^https?:\/\//i.exec(origin) ?? [];
    if (scheme === undefined || isSafeHost?.(host) === false) return false;
    const page = parseOrigin(origin);
    return page !== undefined && page === parseOrigin(`${scheme}${host}`);
  };
}

/**
 * A page of another origin cannot send it without permission. Some browsers send neither `Origin` nor `Sec-Fetch-Site` to addresses without
 * TLS.
 */
const PAGE_HEADER = "claw-mcp-stdio-page";

export class Guards {
  readonly #tokens: AuthTokens | undefined;
  readonly #endpointPath: string | undefined;
  readonly #checkCaller: ReturnType<typeof createCrossOriginCheck>;
  readonly #checkReader: ReturnType<typeof createCrossOriginCheck>;
  readonly #checkPage: ReturnType<typeof createCrossOriginCheck>;

  /** @param endpointPath undefined for a listener without the endpoint. */
  constructor(
    { config }: Context,
    tokens: AuthTokens | undefined,
    listenHost: string | undefined,
    hasPage: boolean,
    endpointPath: string | undefined,
  ) {
    [this.#tokens, this.#endpointPath] = [tokens, endpointPath];
    const isOriginAllowed = createOriginCheck(config.allowedOrigins);
    // Browsers send no `Origin` if a page reads from its own host.
    const isReadersHostAllowed = createHostCheck(config.allowedHosts, listenHost, tokens === undefined);
    const isOwnPage = hasPage ? createOwnPageTest(isReadersHostAllowed) : (): boolean => false;
    this.#checkCaller = createCrossOriginCheck(isOriginAllowed, createHostCheck(config.allowedHosts, listenHost), isOwnPage);
    this.#checkReader = createCrossOriginCheck(isOriginAllowed, isReadersHostAllowed, isOwnPage);
    this.#checkPage = createCrossOriginCheck(() => false, isReadersHostAllowed, isOwnPage);
  }

  mayReadDetails(request: IncomingMessage): boolean {
    if (this.#checkReader(request) !== undefined) return false;
    return this.#tokens === undefined || this.#tokens.identify(request.headers.authorization) !== undefined;
  }

  guard(name: RouteName, route: Route): RequestListener {
    const { needsToken, isForOperators, isSameOriginOnly, methods }: RouteEntry = ROUTES[name];
    const allow = allowHeader(methods);
    const tokens = needsToken ? this.#tokens : undefined;
    const checkAllowed = isForOperators ? this.#checkReader : this.#checkCaller;
    const checkOrigin = isSameOriginOnly ? this.#rejectOtherPages : checkAllowed;
    // Preflights are not answered by it, because each response to OPTIONS has `Allow`.
    const setCorsHeaders = cors((request: IncomingMessage, callback: (error: null, options: CorsOptions) => void) =>
      callback(null, { ...CORS_OPTIONS, allowedHeaders: allowedHeaders(request), methods: [...methods, "OPTIONS"] }),
    );

    return (request, response) => {
      const { method = "" } = request;
      const rejection = needsToken ? checkOrigin(request) : undefined;
      // Pages of allowed origins may read all responses, errors included.
      if (request.headers.origin !== undefined && needsToken && !isSameOriginOnly && rejection?.code !== "ORIGIN_NOT_ALLOWED")
        setCorsHeaders(request, response, () => undefined);
      if (rejection !== undefined) return reject(response, rejection);
      // A browser's preflight request has no token.
      if (method === "OPTIONS") return sendMethods(response, allow);
      const principal = tokens?.identify(request.headers.authorization);
      if (tokens !== undefined && principal === undefined) return rejectUnauthorized(response);
      if (methods.includes(method)) {
        // Only a route for POST reads a body.
        if (!methods.includes("POST")) discardBody(request);
        return route(request, response, principal);
      }
      // Clients may have the URL without its path.
      const hint = name === "page" && this.#endpointPath !== undefined ? ` The MCP endpoint is ${this.#endpointPath}.` : "";
      const error = new SidecarError("METHOD_NOT_ALLOWED", `This path does not support ${method}; use ${methods.join(", ")}.${hint}`);
      reject(response, error, { Allow: allow });
    };
  }

  readonly #rejectOtherPages = (request: IncomingMessage): SidecarError | undefined => {
    const site = request.headers["sec-fetch-site"]?.toString();
    const rejection = this.#checkPage(request);
    const isOther =
      rejection?.code === "ORIGIN_NOT_ALLOWED" ||
      (site !== undefined && !SAME_ORIGIN_SITES.has(site)) ||
      request.headers[PAGE_HEADER] === undefined;
    return isOther ? new SidecarError("ORIGIN_NOT_ALLOWED", "Only the sidecar's own page may read this.", {}, "page") : rejection;
  };
}

export function sendMethods(response: ServerResponse, allow: string): void {
  response.writeHead(204, { Allow: allow }).end();
  discardBody(response.req);
}
