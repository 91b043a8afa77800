import type { IncomingMessage, RequestListener, ServerResponse } from "node:http";
import express from "express";
import type { ErrorRequestHandler, Request, Response } from "express";
import { SidecarError } from "../mcp/errors.ts";
import type { Defects } from "../observe/log.ts";
import { ALL_METHODS, LEGACY_PATHS, ROUTES } from "../routes.ts";
import { answerOptions, createRouteGuard, type CrossOriginOptions, pathAndQuery } from "./guards.ts";
import type { ListenAddress } from "../config/authority.ts";
import { createHealthRoutes, createStatusRoute, type StatusOptions } from "./health.ts";
import { createMetricsRoute, type MetricsRouteOptions } from "./metrics.ts";
import {
  errorBody,
  type Identify,
  type NamedRoute,
  type PrincipalRoute,
  reject,
  type RoutedRequest,
  sendDefect,
  sendRejection,
} from "./response.ts";
import type { ServerRoutes } from "./server-routes.ts";

interface NotFoundOptions {
  /** The path of the MCP endpoint; undefined at the address for operators. */
  readonly path: string | undefined;
  readonly hasToken: boolean;
  readonly hasLegacySse: boolean;
  /** True if operators have an address of their own. */
  readonly isSplit: boolean;
}

/** Paths of HTTP+SSE. Some servers have the second one without its `s`. */
const SSE_PATHS: ReadonlySet<string> = new Set([...LEGACY_PATHS, "/message"]);
const OPERATOR_PATHS: ReadonlySet<string> = new Set([ROUTES.status.path, ROUTES.metrics.path]);
const HEALTH_PATHS: ReadonlySet<string> = new Set(["/health", "/ping"]);
/** The paths at which MCP clients look for an authorization server after a 401. Some put the path of the endpoint first. */
const OAUTH_PATH = /^(?:\/[^/]+)*\/\.well-known\/(?:oauth-|openid-)|^\/(?:register|authorize|token)$/;

/**
 * Returns the body of `notFound`. The official client reads that of an authorization server (RFC 6749 §5.2), and would show the failure of its
 * schema for any other.
 */
function notFoundBody(target: string, error: SidecarError): string {
  return OAUTH_PATH.test(target) ? JSON.stringify({ error: error.code, error_description: error.message }) : errorBody(error, undefined);
}

/** Returns the cause of a request for a path that does not exist, for the log; undefined if it is not known. */
function notFoundReason(target: string): string | undefined {
  return OAUTH_PATH.test(target)
    ? "the client looks for an OAuth server, as many do before their first request; the sidecar has none"
    : undefined;
}

/** Returns the end of a sentence. @param path undefined if the MCP endpoint has another address. */
export function describeEndpoint(path: string | undefined): string {
  return path === undefined ? "the MCP endpoint has another address" : `the MCP endpoint is ${path}`;
}

/** Returns the error for a path that does not exist. Names the remedy if clients are known to ask for this path. */
function notFound(target: string, { path, hasToken, hasLegacySse, isSplit }: NotFoundOptions): SidecarError {
  const message = `There is nothing at ${target}; ${describeEndpoint(path)}.`;
  const asked = target.replace(/\/$/, "");
  const hints: string[] = [];
  if (!hasLegacySse && SSE_PATHS.has(asked)) hints.push("HTTP+SSE is off; --legacy-sse=on enables it.");
  if (OPERATOR_PATHS.has(asked)) hints.push(isSplit ? "It is at ADMIN_ADDR." : "METRICS is off.");
  if (asked === "") hints.push(isSplit && path !== undefined ? "A page is only at ADMIN_ADDR." : "--page on shows a page here.");
  if (HEALTH_PATHS.has(asked)) hints.push(`Probes use ${ROUTES.live.path} for the sidecar and ${ROUTES.health.path} for the MCP server.`);
  if (hasToken && OAUTH_PATH.test(asked)) hints.push("The sidecar has no OAuth; clients need the header `Authorization: Bearer TOKEN`.");
  return new SidecarError("NOT_FOUND", [message, ...hints].join(" "));
}

export interface AppOptions extends StatusOptions, CrossOriginOptions {
  readonly routes: Pick<ServerRoutes, "endpoint" | "legacySse">;
  /** The address for `/status` and `/metrics`, if it is not that of the endpoint. */
  readonly adminHost: Pick<ListenAddress, "host"> | undefined;
  /** The path of the MCP endpoint, for example `/mcp`. */
  readonly path: string;
  /** Undefined if no token is configured. */
  readonly identify: Identify | undefined;
  /** Returns the metrics of requests; undefined if there is no `/metrics`. */
  readonly requestSamples: MetricsRouteOptions["requestSamples"] | undefined;
  /** The routes of the page; undefined without one. */
  readonly page: readonly NamedRoute[] | undefined;
  readonly defects: Pick<Defects, "note" | "recover">;
}

/** The handlers of HTTP requests, one for each listener. */
export interface Apps {
  readonly main: RequestListener;
  /** Has the routes for operators. Undefined without an address of its own: `main` has them then. */
  readonly admin: RequestListener | undefined;
}

/** Creates the handlers of all HTTP requests. */
export function createApps(options: AppOptions): Apps {
  const { routes, requestSamples, adminHost, page = [] } = options;
  const operatorRoutes: readonly NamedRoute[] = [
    ["status", createStatusRoute(options)],
    ...(requestSamples === undefined ? [] : [["metrics", createMetricsRoute({ ...options, requestSamples })] as const]),
    ...page,
  ];
  if (adminHost === undefined)
    return { main: createApp(options, [...operatorRoutes, ...routes.legacySse], routes.endpoint), admin: undefined };
  return {
    main: createApp(options, routes.legacySse, routes.endpoint),
    admin: createApp({ ...options, listenHost: adminHost.host }, operatorRoutes),
  };
}

/**
 * Creates the handler of a listener. The MCP endpoint is matched first, and Express handles everything else. The routing of Express,
 * and its prototypes on each request, cost a seventh of the calls per second (docs/decisions/0002-endpoint-before-express.md).
 *
 * @param endpointRoute undefined for a listener without the endpoint.
 */
function createApp(options: AppOptions, furtherRoutes: readonly NamedRoute[], endpointRoute?: PrincipalRoute): RequestListener {
  const { routes, path, identify, defects } = options;
  const endpointPath = endpointRoute && path;
  const { guard, mayReadDetails } = createRouteGuard({
    ...options,
    hasPage: furtherRoutes.some(([name]) => name === "page"),
    endpointPath,
  });
  const endpoint = endpointRoute && guard("endpoint", endpointRoute);
  const otherRoutes: readonly NamedRoute[] = [...createHealthRoutes({ ...options, mayReadDetails }), ...furtherRoutes];
  const known = {
    path: endpointPath,
    hasToken: identify !== undefined,
    hasLegacySse: routes.legacySse.length > 0,
    isSplit: options.adminHost !== undefined,
  };
  const sendNotFound = (response: ServerResponse, target: string): void => {
    const error = notFound(target, known);
    sendRejection(response, error, notFoundBody(target, error), undefined, notFoundReason(target));
  };
  const server = answerOptions({ methods: ALL_METHODS }, (_request, response) => sendNotFound(response, "that URL"));
  const comparedPath = path.replace(/\/$/, "");
  const app = express().disable("x-powered-by").disable("etag").enable("case sensitive routing");
  for (const [name, route] of otherRoutes) app.all(ROUTES[name].path, guard(name, route));
  app
    .use((request, response) => sendNotFound(response, request.path))
    .use(((error: unknown, request, response, _next) => {
      // The escapes of a path are malformed.
      if (error instanceof URIError) return sendNotFound(response, request.path);
      defects.note("http request", error);
      sendDefect(response, false);
    }) satisfies ErrorRequestHandler);

  return handle;

  function handle(request: RoutedRequest, response: ServerResponse): void {
    const problem = framingProblem(request);
    if (problem !== undefined) return reject(request, response, new SidecarError("INVALID_REQUEST", problem), { Connection: "close" });
    const { url: target = "" } = request;
    const url = pathAndQuery(target);
    if (url === undefined) return server(request, response);
    if (url !== target) [request.url, request.originalUrl] = [url, target];
    if (endpoint !== undefined && isPath(url, comparedPath)) return endpoint(request, response);
    // Express calls this function for an invalid URL, instead of its own response in HTML.
    app(request as Request, response as Response, () => sendNotFound(response, "that URL"));
  }
}

/** Returns the rule of RFC 9112 that the headers of a request violate. A proxy in front may have read such a request in another way. */
function framingProblem({ rawHeaders, httpVersion }: IncomingMessage): string | undefined {
  let hosts = 0;
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = rawHeaders[index] ?? "";
    if (name.length === 4 && name.toLowerCase() === "host") hosts++;
    // §6.1. Node would read the chunks of another coding as plain text.
    else if (name.length === 17 && name.toLowerCase() === "transfer-encoding" && rawHeaders[index + 1]?.toLowerCase() !== "chunked")
      return "The Transfer-Encoding is not supported; send `chunked` alone, or a Content-Length.";
  }
  // §3.2. Node would reject a missing one too, but without a body.
  if (hosts === 0 && httpVersion === "1.1") return "The Host header is missing.";
  return hosts > 1 ? "There are several Host headers; send only one." : undefined;
}

/** True for the path, also with one slash at its end. Express compares the other paths in the same way. */
function isPath(url: string, path: string): boolean {
  return url === path || (url.startsWith(path) && /^\/?(?:[?#]|$)/.test(url.slice(path.length)));
}
