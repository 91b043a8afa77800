import express, { type ErrorRequestHandler, type Request, type Response } from "express";
import type { IncomingMessage, RequestListener, ServerResponse } from "node:http";
import type { Defects } from "../observability/defects.ts";
import { SidecarError } from "../errors.ts";
import { ALL_METHODS, ROUTES } from "../routes.ts";
import type { ListenAddress } from "./guards/authority.ts";
import { pathAndQuery } from "./guards/origin-guard.ts";
import type { CrossOriginOptions } from "./guards/cross-origin.ts";
import { createHealthRoutes } from "./health-routes.ts";
import { sendDefect, sendRejection } from "./json-response.ts";
import { answerOptions } from "./guards/method-guard.ts";
import { createRouteGuard } from "./guards/route-guard.ts";
import { notFound, notFoundBody, notFoundReason } from "./not-found.ts";
import { reject } from "./reject.ts";
import type { Identify, NamedRoute, PrincipalRoute, RoutedRequest } from "./route.ts";
import type { ServerRoutes } from "./server-routes.ts";
import { createMetricsRoute, type MetricsRouteOptions } from "./metrics/metrics-route.ts";
import { createStatusRoute, type StatusOptions } from "./status-route.ts";

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
