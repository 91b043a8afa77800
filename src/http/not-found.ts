import { SidecarError } from "../errors.ts";
import { errorBody } from "./error-response.ts";
import { LEGACY_PATHS, ROUTES } from "../routes.ts";

export interface NotFoundOptions {
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
export function notFoundBody(target: string, error: SidecarError): string {
  return OAUTH_PATH.test(target) ? JSON.stringify({ error: error.code, error_description: error.message }) : errorBody(error, undefined);
}

/** Returns the cause of a request for a path that does not exist, for the log; undefined if it is not known. */
export function notFoundReason(target: string): string | undefined {
  return OAUTH_PATH.test(target)
    ? "the client looks for an OAuth server, as many do before their first request; the sidecar has none"
    : undefined;
}

/** Returns the end of a sentence. @param path undefined if the MCP endpoint has another address. */
export function describeEndpoint(path: string | undefined): string {
  return path === undefined ? "the MCP endpoint has another address" : `the MCP endpoint is ${path}`;
}

/** Returns the error for a path that does not exist. Names the remedy if clients are known to ask for this path. */
export function notFound(target: string, { path, hasToken, hasLegacySse, isSplit }: NotFoundOptions): SidecarError {
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
