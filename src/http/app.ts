import express, { type ErrorRequestHandler, type Request, type Response } from "express";
import type { IncomingMessage, RequestListener, ServerResponse } from "node:http";
import type { Defects } from "../defects.ts";
import { SidecarError } from "../errors.ts";
import { ROUTES } from "../routes.ts";
import { createTokenGuard, type Identify } from "./access-guard.ts";
import { createCrossOriginCheck, createCrossOriginGuard, type CrossOriginOptions } from "./cross-origin.ts";
import { createHealthRoutes, type HealthOptions } from "./health-routes.ts";
import { sendDefect, sendError } from "./json-response.ts";
import type { LegacySsePairs } from "./legacy-sse-pairs.ts";
import { createLegacySseRoutes } from "./legacy-sse-routes.ts";
import { createMcpRoute, type McpRouteOptions } from "./mcp-route.ts";
import type { PrincipalRoute, Route } from "./route.ts";
import { createStatusRoute, type StatusOptions } from "./status-route.ts";

export interface AppOptions extends McpRouteOptions, HealthOptions, StatusOptions, CrossOriginOptions {
  /** Of the MCP endpoint, for example `/mcp`. */
  readonly path: string;
  /** Undefined where no token is asked for. */
  readonly identify: Identify | undefined;
  /** Undefined where HTTP+SSE is not offered. */
  readonly legacySse: LegacySsePairs | undefined;
  readonly defects: Defects;
}

/**
 * All of HTTP: the endpoint and, by Express, everything else. The endpoint is looked up before Express, not inside it: routing, and
 * the prototypes that Express puts on each request, cost a seventh of the calls (docs/decisions/0002-endpoint-before-express.md).
 */
export function createApp(options: AppOptions): RequestListener {
  const { path, identify, legacySse, replacer, defects } = options;
  const guardOrigin = createCrossOriginGuard(createCrossOriginCheck(options));
  const guardToken = createTokenGuard(identify);
  const guarded = (route: PrincipalRoute): Route => guardOrigin(guardToken(route));
  // Browsers name no origin where a page reads from the host that it came from.
  const checkReader = createCrossOriginCheck({ ...options, refusesRebindable: identify === undefined });
  const mayReadDetails = (request: IncomingMessage): boolean =>
    checkReader(request) === undefined && (identify === undefined || identify(request.headers.authorization) !== undefined);
  const mcpRoute = guarded(createMcpRoute(options));
  const legacyRoutes = legacySse === undefined ? [] : createLegacySseRoutes({ ...options, pairs: legacySse });
  const otherRoutes = legacyRoutes.map(([otherPath, route]): [string, Route] => [otherPath, guarded(route)]);
  otherRoutes.push([ROUTES.status, createCrossOriginGuard(checkReader)(guardToken(createStatusRoute(options)))]);
  const notFound = (response: ServerResponse, where: string): void =>
    sendError(response, new SidecarError("NOT_FOUND", `There is nothing at ${where}; the MCP endpoint is ${path}.`));
  const app = express()
    .disable("x-powered-by")
    .disable("etag")
    .set("json replacer", replacer)
    .use(createHealthRoutes({ ...options, mayReadDetails }))
    .use((request, response) => notFound(response, request.path))
    .use(((error: unknown, _request, response, _next) => {
      defects.note("http request", error);
      sendDefect(response, false);
    }) satisfies ErrorRequestHandler);

  return handle;

  function handle(request: IncomingMessage, response: ServerResponse): void {
    if (request.headers.host === undefined && request.httpVersion === "1.1") {
      // RFC 9112 §3.2. Node would refuse it too, but without a body.
      sendError(response, new SidecarError("INVALID_REQUEST", "The Host header is missing.", { sent: false }), undefined, {
        Connection: "close",
      });
      return;
    }
    const url = request.url ?? "";
    if (isEndpoint(url, path)) return mcpRoute(request, response);
    const route = otherRoutes.find(([otherPath]) => isEndpoint(url, otherPath))?.[1];
    if (route !== undefined) return route(request, response);
    // Express does not route what is no URL, and would answer it in HTML.
    app(request as Request, response as Response, () => notFound(response, "that URL"));
  }
}

/** The path itself, also with a slash or a query behind it, or in the absolute form that proxies use (RFC 9112 §3.2.2). */
function isEndpoint(url: string, path: string): boolean {
  if (url === path) return true;
  if (/^https?:\/\//i.test(url)) return isEndpoint(url.replace(/^[^/]*\/\/[^/?]*/, ""), path);
  if (!url.startsWith(path)) return false;
  const rest = url.slice(path.length);
  return rest.startsWith("?") || rest === "/" || rest.startsWith("/?");
}
