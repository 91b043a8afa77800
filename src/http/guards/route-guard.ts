import type { IncomingMessage } from "node:http";
import { type RouteEntry, type RouteName, ROUTES } from "../../routes.ts";
import type { Identify, PrincipalRoute, Route } from "../route.ts";
import { createTokenGuard } from "./access-guard.ts";
import { createCrossOriginCheck, createCrossOriginGuard, type CrossOriginOptions } from "./cross-origin.ts";
import { answerOptions, guardMethod } from "./method-guard.ts";
import { createSameOriginGuard, createSameOriginTest } from "./same-origin.ts";

export interface RouteGuardOptions extends Omit<CrossOriginOptions, "isSameOrigin"> {
  /** Undefined if no token is configured. */
  readonly identify: Identify | undefined;
  readonly hasPage: boolean;
  /** Undefined for a listener without the endpoint. */
  readonly endpointPath: string | undefined;
}

/** The guards of a listener: origin, host, token and method. */
export interface RouteGuard {
  /** Returns the route with the guards of its entry in `ROUTES`. */
  readonly guard: (name: RouteName, route: PrincipalRoute) => Route;
  /** True if the client may read more than the state. */
  readonly mayReadDetails: (request: IncomingMessage) => boolean;
}

export function createRouteGuard({ identify, hasPage, endpointPath, ...options }: RouteGuardOptions): RouteGuard {
  const hasToken = identify !== undefined;
  const isSameOrigin = hasPage ? createSameOriginTest(options, hasToken) : undefined;
  const checkCaller = createCrossOriginCheck({ ...options, isSameOrigin });
  // Browsers send no `Origin` if a page reads from its own host.
  const readerOptions = { ...options, isSameOrigin, rejectsRebindable: !hasToken };
  const checkReader = createCrossOriginCheck(readerOptions);
  const guardToken = createTokenGuard(identify);
  // Clients may have the URL without its path.
  const pageHint = endpointPath === undefined ? "" : ` The MCP endpoint is ${endpointPath}.`;

  function guard(name: RouteName, route: PrincipalRoute): Route {
    const entry: RouteEntry = ROUTES[name];
    const offered = guardMethod(entry, route, name === "page" ? pageHint : "");
    if (!entry.needsToken) return answerOptions(entry, (request, response) => offered(request, response, undefined));
    const guardOrigin = entry.isSameOriginOnly
      ? createSameOriginGuard(readerOptions)
      : createCrossOriginGuard(entry, entry.isForOperators ? checkReader : checkCaller);
    // The guard of the token comes last, because a browser's preflight request has no token.
    return guardOrigin(answerOptions(entry, guardToken(offered)));
  }

  return {
    guard,
    mayReadDetails: (request) => checkReader(request) === undefined && (!hasToken || identify(request.headers.authorization) !== undefined),
  };
}
