import type { IncomingMessage, RequestListener, ServerResponse } from "node:http";
import express from "express";
import type { ErrorRequestHandler, Request, Response } from "express";
import type { Config } from "../config/load.ts";
import type { Context } from "../context.ts";
import { SidecarError } from "../mcp/errors.ts";
import { ALL_METHODS, allowHeader, LEGACY_PATHS, type RouteName, ROUTES } from "../routes.ts";
import type { AuthTokens } from "./auth-tokens.ts";
import { Guards, pathAndQuery, sendMethods } from "./guards.ts";
import { createHealthRoutes, type Status } from "./health.ts";
import { reject, type Route, type RoutedRequest, sendDefect, sendError, sendRejection } from "./response.ts";

/** Paths of HTTP+SSE. Some servers have the second one without its `s`. */
const SSE_PATHS: ReadonlySet<string> = new Set([...LEGACY_PATHS, "/message"]);
const OPERATOR_PATHS: ReadonlySet<string> = new Set([ROUTES.status.path, ROUTES.metrics.path]);
const HEALTH_PATHS: ReadonlySet<string> = new Set(["/health", "/ping"]);
/** MCP clients look here for an authorization server after a 401. Some put the endpoint's path first. */
const OAUTH_PATH = /^(?:\/[^/]+)*\/\.well-known\/(?:oauth-|openid-)|^\/(?:register|authorize|token)$/;

/** @param path undefined if the MCP endpoint has another address. */
export function describeEndpoint(path: string | undefined): string {
  return path === undefined ? "the MCP endpoint has another address" : `the MCP endpoint is ${path}`;
}

/** @param path undefined at the address for operators. */
function sendNotFound(response: ServerResponse, target: string, path: string | undefined, config: Config): void {
  const { adminAddr, authTokens, legacySse } = config;
  const asked = target.replace(/\/$/, "");
  const isSplit = adminAddr !== undefined;
  const isOfOauth = OAUTH_PATH.test(asked);
  const sentences = [`There is nothing at ${target}; ${describeEndpoint(path)}.`];
  if (legacySse === "off" && SSE_PATHS.has(asked)) sentences.push("HTTP+SSE is off; --legacy-sse=on enables it.");
  if (OPERATOR_PATHS.has(asked)) sentences.push(isSplit ? "It is at ADMIN_ADDR." : "METRICS is off.");
  if (asked === "") sentences.push(isSplit && path !== undefined ? "A page is only at ADMIN_ADDR." : "--page on shows a page here.");
  if (HEALTH_PATHS.has(asked))
    sentences.push(`Probes use ${ROUTES.live.path} for the sidecar and ${ROUTES.health.path} for the MCP server.`);
  if (authTokens.length > 0 && isOfOauth)
    sentences.push("The sidecar has no OAuth; clients need the header `Authorization: Bearer TOKEN`.");
  const error = new SidecarError("NOT_FOUND", sentences.join(" "));
  if (!isOfOauth) return sendError(response, error);
  // The official client reads the body of an authorization server (RFC 6749 §5.2). It shows any other as a failure of its schema.
  const body = JSON.stringify({ error: error.code, error_description: error.message });
  const reason = "the client looks for an OAuth server, as many do before their first request; the sidecar has none";
  sendRejection(response, error, body, undefined, reason);
}

/** The endpoint is matched before Express (decision 0002). @param routes those besides the health routes. */
export function createApp(
  context: Context,
  tokens: AuthTokens | undefined,
  status: () => Status,
  { endpoint: endpointRoute, ...routes }: Readonly<Partial<Record<RouteName, Route>>>,
): RequestListener {
  const { config, defects } = context;
  const endpointPath = endpointRoute && config.path;
  const listenHost = endpointRoute === undefined ? config.adminAddr?.host : config.host;
  const guards = new Guards(context, tokens, listenHost, routes.page !== undefined, endpointPath);
  const endpoint = endpointRoute && guards.guard("endpoint", endpointRoute);
  const health = createHealthRoutes(context, status, (request) => guards.mayReadDetails(request));
  const comparedPath = config.path.replace(/\/$/, "");
  const answerUnknown = (response: ServerResponse, target: string): void => sendNotFound(response, target, endpointPath, config);
  const app = express().disable("x-powered-by").disable("etag").enable("case sensitive routing");
  for (const [name, route] of Object.entries({ ...health, ...routes }) as [RouteName, Route][])
    app.all(ROUTES[name].path, guards.guard(name, route));
  app
    .use((request, response) => answerUnknown(response, request.path))
    .use(((error: unknown, request, response, _next) => {
      // The escapes of a path are malformed.
      if (error instanceof URIError) return answerUnknown(response, request.path);
      defects.note("http request", error);
      sendDefect(response, false);
    }) satisfies ErrorRequestHandler);

  return (request: RoutedRequest, response) => {
    const problem = framingProblem(request);
    if (problem !== undefined) return reject(response, new SidecarError("INVALID_REQUEST", problem), { Connection: "close" });
    const { url: target = "", method } = request;
    if (target === comparedPath && endpoint !== undefined) return endpoint(request, response);
    const url = pathAndQuery(target);
    if (url === undefined && method === "OPTIONS") return sendMethods(response, allowHeader(ALL_METHODS));
    if (url === undefined) return answerUnknown(response, "that URL");
    if (url !== target) [request.url, request.originalUrl] = [url, target];
    if (endpoint !== undefined && isPath(url, comparedPath)) return endpoint(request, response);
    // Replaces Express's own HTML response to an invalid URL.
    app(request as Request, response as Response, () => answerUnknown(response, "that URL"));
  };
}

/** RFC 9112. A proxy in front may have read such a request in another way. */
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

/** Express compares the other paths in the same way. */
function isPath(url: string, path: string): boolean {
  return url.startsWith(path) && /^\/?(?:[?#]|$)/.test(url.slice(path.length));
}
