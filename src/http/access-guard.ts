import type { IncomingMessage, ServerResponse } from "node:http";
import { SidecarError } from "../errors.ts";
import type { Principal } from "../mux/session.ts";
import { refuse } from "./refuse.ts";
import type { PrincipalRoute, Route } from "./route.ts";

/** Who a request with this `Authorization` header is from; undefined where it has no valid token. */
export type Identify = (authorization: string | undefined) => Principal | undefined;

/** Keeps everybody from a route who does not have a token. @param identify undefined where none is configured: everybody may. */
export function createTokenGuard(identify: Identify | undefined): (route: PrincipalRoute) => Route {
  if (identify === undefined) return (route) => (request, response) => route(request, response, undefined);
  return (route) => (request, response) => {
    const principal = identify(request.headers.authorization);
    if (principal === undefined) refuseUnauthorized(request, response);
    else route(request, response, principal);
  };
}

/** The one answer to whoever may not: it must not tell what there is for others. */
export function refuseUnauthorized(request: IncomingMessage, response: ServerResponse): void {
  const error = new SidecarError("UNAUTHORIZED", "This endpoint needs a valid bearer token.");
  refuse(request, response, error, { "WWW-Authenticate": challenge(request.headers.authorization) });
}

export function challenge(authorization: string | undefined): string {
  return authorization === undefined ? 'Bearer realm="mcp"' : 'Bearer realm="mcp", error="invalid_token"';
}
