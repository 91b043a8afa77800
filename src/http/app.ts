import express, { type ErrorRequestHandler, type Request, type Response } from "express";
import type { IncomingMessage, RequestListener, ServerResponse } from "node:http";
import type { Defects } from "../observability/defects.ts";
import { SidecarError } from "../errors.ts";
import { type RouteEntry, type RouteName, ROUTES } from "../routes.ts";
import { createTokenGuard, type Identify } from "./guards/access-guard.ts";
import { createCrossOriginCheck, createCrossOriginGuard, type CrossOriginOptions } from "./guards/cross-origin.ts";
import { createHealthRoutes, type HealthOptions } from "./health-routes.ts";
import { sendDefect, sendError } from "./json-response.ts";
import type { LegacySsePairs } from "./legacy-sse/legacy-sse-pairs.ts";
import { createLegacySseRoutes } from "./legacy-sse/legacy-sse-routes.ts";
import { createMcpRoute, type McpRouteOptions } from "./endpoint/mcp-route.ts";
import { answerOptions, guardMethod } from "./guards/method-guard.ts";
import type { NamedRoute, PrincipalRoute, Route } from "./route.ts";
import { createStatusRoute, type StatusOptions } from "./status-route.ts";

export interface AppOptions extends McpRouteOptions, HealthOptions, StatusOptions, CrossOriginOptions {
  /** The path of the MCP endpoint, for example `/mcp`. */
  readonly path: string;
  /** Undefined if no token is configured. */
  readonly identify: Identify | undefined;
  /** Undefined if HTTP+SSE is off. */
  readonly legacySse: LegacySsePairs | undefined;
  readonly defects: Defects;
}

/**
 * Creates the handler of all HTTP requests. The MCP endpoint is matched first, and Express handles everything else. The routing of Express,
 * and its prototypes on each request, cost a seventh of the calls per second (docs/decisions/0002-endpoint-before-express.md).
 */
export function createApp(options: AppOptions): RequestListener {
  const { path, identify, legacySse, defects } = options;
  const checkCaller = createCrossOriginCheck(options);
  // Browsers send no `Origin` if a page reads from its own host.
  const checkReader = createCrossOriginCheck({ ...options, rejectsRebindable: identify === undefined });
  const mayReadDetails = (request: IncomingMessage): boolean =>
    checkReader(request) === undefined && (identify === undefined || identify(request.headers.authorization) !== undefined);
  const guardToken = createTokenGuard(identify);

  function guard(name: RouteName, route: PrincipalRoute): Route {
    const entry: RouteEntry = ROUTES[name];
    const offered = guardMethod(entry, route);
    if (!entry.needsToken) return answerOptions(entry, (request, response) => offered(request, response, undefined));
    const guardOrigin = createCrossOriginGuard(entry, name === "status" ? checkReader : checkCaller);
    // The guard of the token comes last, because a browser's preflight request has no token.
    return guardOrigin(answerOptions(entry, guardToken(offered)));
  }

  const endpoint = guard("endpoint", createMcpRoute(options));
  const otherRoutes: readonly NamedRoute[] = [
    ...createHealthRoutes({ ...options, mayReadDetails }),
    ["status", createStatusRoute(options)],
    ...(legacySse === undefined ? [] : createLegacySseRoutes({ ...options, pairs: legacySse })),
  ];
  const notFound = (response: ServerResponse, target: string): void =>
    sendError(response, new SidecarError("NOT_FOUND", `There is nothing at ${target}; the MCP endpoint is ${path}.`));
  const app = express().disable("x-powered-by").disable("etag");
  for (const [name, route] of otherRoutes) app.all(ROUTES[name].path, guard(name, route));
  app
    .use((request, response) => notFound(response, request.path))
    .use(((error: unknown, _request, response, _next) => {
      defects.note("http request", error);
      sendDefect(response, false);
    }) satisfies ErrorRequestHandler);

  return handle;

  function handle(request: IncomingMessage, response: ServerResponse): void {
    if (request.headers.host === undefined && request.httpVersion === "1.1") {
      // RFC 9112 §3.2. Node would reject it too, but without a body.
      sendError(response, new SidecarError("INVALID_REQUEST", "The Host header is missing."), undefined, { Connection: "close" });
      return;
    }
    if (isEndpoint(request.url ?? "", path)) return endpoint(request, response);
    // Express calls this function for an invalid URL, instead of its own response in HTML.
    app(request as Request, response as Response, () => notFound(response, "that URL"));
  }
}

/** True for the path itself, also with a trailing slash or a query, or in the absolute form that proxies use (RFC 9112 §3.2.2). */
function isEndpoint(url: string, path: string): boolean {
  if (url === path) return true;
  if (/^https?:\/\//i.test(url)) return isEndpoint(url.replace(/^[^/]*\/\/[^/?]*/, ""), path);
  if (!url.startsWith(path)) return false;
  const rest = url.slice(path.length);
  return rest.startsWith("?") || rest === "/" || rest.startsWith("/?");
}
