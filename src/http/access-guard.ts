import { timingSafeEqual } from "node:crypto";
import { SidecarError } from "../errors.ts";
import type { Route } from "./mcp-route.ts";
import { refuse } from "./refuse.ts";

/** Keeps everybody from a route who does not have the token. */
export function createTokenGuard(token: string | undefined): (route: Route) => Route {
  const isAuthorized = createTokenCheck(token);
  if (isAuthorized === undefined) return (route) => route;
  return (route) => (request, response) => {
    const { authorization } = request.headers;
    if (isAuthorized(authorization)) return route(request, response);
    const error = new SidecarError("UNAUTHORIZED", "This endpoint needs a valid bearer token.");
    refuse(request, response, error, { "WWW-Authenticate": challenge(authorization) });
  };
}

/**
 * Makes the check of the `Authorization` header. The comparison takes the same time wherever a wrong token differs; only its length
 * can show.
 *
 * @returns undefined where no token is configured: everybody may.
 */
export function createTokenCheck(token: string | undefined): ((authorization: string | undefined) => boolean) | undefined {
  if (token === undefined) return undefined;
  const expected = Buffer.from(token, "utf8");
  const received = Buffer.alloc(expected.length);
  return (authorization) => {
    const match = /^bearer +(.*)$/is.exec(authorization ?? "");
    // Node gives header bytes as latin1; back to bytes, a UTF-8 token compares as it was sent.
    const presented = Buffer.from(match?.[1]?.trimEnd() ?? "", "latin1");
    const isSameLength = presented.length === expected.length;
    if (isSameLength) presented.copy(received);
    else received.fill(0);
    return timingSafeEqual(received, expected) && isSameLength;
  };
}

export function challenge(authorization: string | undefined): string {
  return authorization === undefined ? 'Bearer realm="mcp"' : 'Bearer realm="mcp", error="invalid_token"';
}
