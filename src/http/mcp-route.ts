import type { IncomingMessage } from "node:http";
import { SidecarError } from "../mcp/errors.ts";
import type { MemoryBudget } from "../memory.ts";
import { allowHeader, ROUTES } from "../routes.ts";
import { shuttingDown } from "../server/failures.ts";
import { openGetStream } from "./event-streams.ts";
import { PostRoute, type PostRouteOptions, SessionLookup, type SessionLookupOptions } from "./post.ts";
import { holderOf, type Post, type PrincipalRoute, sendError } from "./response.ts";

export interface McpRouteOptions extends Omit<PostRouteOptions, "lookup">, SessionLookupOptions {
  readonly opener: PostRouteOptions["opener"] & SessionLookupOptions["opener"];
  readonly isDraining: () => boolean;
  readonly memory: Pick<MemoryBudget, "account">;
}

/** Creates the route of the MCP endpoint: POST, GET and DELETE of Streamable HTTP (MCP 2025-11-25, basic/transports). */
export function createMcpRoute(options: McpRouteOptions): PrincipalRoute {
  const { connections, isDraining, memory, nowMs } = options;
  const lookup = new SessionLookup(options);
  const posts = new PostRoute({ ...options, lookup });

  return (request, response, principal) => {
    const account = memory.account(holderOf(request, principal));
    const session = request.method === "DELETE" ? undefined : lookup.use(request, response, principal);
    const post: Post = { request, response, principal, acceptedAtMs: nowMs(), memory: account, session };
    if (request.method === "POST") posts.handle(post);
    else if (request.method === "GET") openStream(post);
    else endSession(post);
  };

  function openStream(post: Post): void {
    const { request, response } = post;
    request.resume();
    const refusal = lookup.refusal(post);
    if (refusal?.code === "SESSION_REQUIRED") {
      if (isOfBrowser(request)) return sendError(response, notForBrowsers());
      return sendError(response, noStreamYet(), undefined, ALLOW_WITHOUT_SESSION);
    }
    if (refusal !== undefined) return sendError(response, refusal);
    if (isDraining()) return sendError(response, shuttingDown("GET", false));
    lookup.find(post, undefined, (session) => {
      if (session instanceof SidecarError) sendError(response, session);
      else openGetStream(connections, request, response, session);
    });
  }

  function endSession(post: Post): void {
    const { request, response } = post;
    request.resume();
    const refusal = lookup.end(post);
    if (refusal === undefined) response.writeHead(204).end();
    else sendError(response, refusal);
  }
}

const { methods } = ROUTES.endpoint;
const ALLOW_WITHOUT_SESSION = { Allow: allowHeader({ methods: methods.filter((method) => method !== "GET") }) };

/** The status is 405: clients that try HTTP+SSE first, as mcp-remote with `sse-first`, go on to Streamable HTTP only after 404 or 405. */
function noStreamYet(): SidecarError {
  const message = "GET opens an event stream of a session, but the Mcp-Session-Id header is missing; call initialize first.";
  return new SidecarError("METHOD_NOT_ALLOWED", message);
}

/** True if a person has opened the URL in a browser. Only pages accept HTML. */
function isOfBrowser({ headers }: IncomingMessage): boolean {
  return headers.accept?.includes("text/html") === true;
}

function notForBrowsers(): SidecarError {
  const message = `This URL is for MCP clients, not for browsers; ${ROUTES.ready.path} shows if the MCP server is ready.`;
  return new SidecarError("SESSION_REQUIRED", message, {}, "browser");
}
