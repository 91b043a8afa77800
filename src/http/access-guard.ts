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

/** Rejects a token that is missing, not valid, or not the one of the session. The last two get the same answer, so that it tells nothing. */
export function refuseUnauthorized(request: IncomingMessage, response: ServerResponse): void {
  const { authorization } = request.headers;
  const message =
    authorization === undefined
      ? "The Authorization header is missing; send a bearer token."
      : "The Authorization header has no bearer token that is valid for this request.";
  refuse(request, response, new SidecarError("UNAUTHORIZED", message), { "WWW-Authenticate": challenge(authorization) });
}

export function challenge(authorization: string | undefined): string {
  return authorization === undefined ? 'Bearer realm="mcp"' : 'Bearer realm="mcp", error="invalid_token"';
}
