import type { IncomingMessage, ServerResponse } from "node:http";
import { SidecarError } from "../../errors.ts";
import { reject } from "../reject.ts";
import type { Identify, PrincipalRoute, Route } from "../route.ts";

/** Creates a guard that rejects requests without a valid token. @param identify undefined if no token is configured and all may pass. */
export function createTokenGuard(identify: Identify | undefined): (route: PrincipalRoute) => Route {
  if (identify === undefined) return (route) => (request, response) => route(request, response, undefined);
  return (route) => (request, response) => {
    const principal = identify(request.headers.authorization);
    if (principal === undefined) rejectUnauthorized(request, response);
    else route(request, response, principal);
  };
}

/**
 * Rejects a request whose token is missing, not valid, or not the session's. The last two get the same response, so that it does not
 * reveal which tokens are valid.
 */
export function rejectUnauthorized(request: IncomingMessage, response: ServerResponse): void {
  const { authorization } = request.headers;
  reject(request, response, new SidecarError("UNAUTHORIZED", describe(authorization)), { "WWW-Authenticate": challenge(authorization) });
}

function describe(authorization: string | undefined): string {
  if (authorization === undefined) return "The Authorization header is missing; send a bearer token.";
  if (!/^bearer(?: |$)/i.test(authorization)) return "The Authorization header does not begin with `Bearer `, followed by a token.";
  return "The Authorization header has no bearer token that is valid for this request.";
}

function challenge(authorization: string | undefined): string {
  return authorization === undefined ? 'Bearer realm="mcp"' : 'Bearer realm="mcp", error="invalid_token"';
}
