import type { IncomingMessage, ServerResponse } from "node:http";
import { SidecarError } from "../../errors.ts";
import { ROUTES } from "../../routes.ts";
import { shuttingDown } from "../../lane/failures.ts";
import type { MemoryBudget } from "../../memory/memory-budget.ts";
import type { Principal } from "../../sessions/session.ts";
import { openGetStream } from "./event-streams.ts";
import { sendError } from "../json-response.ts";
import { PostRoute, type PostRouteOptions } from "./post-route.ts";
import { holderOf, type PrincipalRoute } from "../route.ts";
import { findSession, markInUse, rejectSession } from "./session-header.ts";

export interface McpRouteOptions extends PostRouteOptions {
  readonly isDraining: () => boolean;
  readonly memory: Pick<MemoryBudget, "account">;
}

/** Creates the route of the MCP endpoint: POST, GET and DELETE of Streamable HTTP (MCP 2025-11-25, basic/transports). */
export function createMcpRoute(options: McpRouteOptions): PrincipalRoute {
  const { sessions, connections, isDraining, memory, nowMs } = options;
  const posts = new PostRoute(options);

  return (request, response, principal) => {
    if (request.method === "POST") {
      const account = memory.account(holderOf(request, principal));
      markInUse(sessions, request, response, principal, nowMs);
      posts.handle({ request, response, principal, acceptedAtMs: nowMs(), memory: account });
    } else if (request.method === "GET") openStream(request, response, principal);
    else endSession(request, response, principal);
  };

  function openStream(request: IncomingMessage, response: ServerResponse, principal: Principal | undefined): void {
    request.resume();
    const session = findSession(sessions, request, principal, nowMs());
    if (session instanceof SidecarError) rejectSession(request, response, isOfBrowser(request, session) ? notForBrowsers() : session);
    else if (isDraining()) sendError(response, shuttingDown("GET", false));
    else {
      markInUse(sessions, request, response, principal, nowMs);
      openGetStream(connections, request, response, session);
    }
  }

  function endSession(request: IncomingMessage, response: ServerResponse, principal: Principal | undefined): void {
    request.resume();
    const session = findSession(sessions, request, principal, nowMs());
    if (session instanceof SidecarError) return rejectSession(request, response, session);
    sessions.end(session);
    response.writeHead(204).end();
  }
}

/** True if a person has opened the URL in a browser. Only pages accept HTML. */
function isOfBrowser({ headers }: IncomingMessage, { code }: SidecarError): boolean {
  return code === "SESSION_REQUIRED" && headers.accept?.includes("text/html") === true;
}

function notForBrowsers(): SidecarError {
  const message = `This URL is for MCP clients, not for browsers; ${ROUTES.ready.path} shows if the MCP server is ready.`;
  return new SidecarError("SESSION_REQUIRED", message, {}, "browser");
}
