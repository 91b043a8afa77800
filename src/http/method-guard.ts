import { SidecarError } from "../errors.ts";
import { allowHeader, type RouteEntry } from "../routes.ts";
import { discardBody, refuse } from "./refuse.ts";
import type { PrincipalRoute, Route } from "./route.ts";

/** Answers OPTIONS in place of the route. */
export function answerOptions(entry: RouteEntry, route: Route): Route {
  const allow = allowHeader(entry);
  return (request, response) => {
    if (request.method !== "OPTIONS") return route(request, response);
    response.writeHead(204, { Allow: allow }).end();
    discardBody(request);
  };
}

/** Rejects all methods but those of the route. */
export function guardMethod(entry: RouteEntry, route: PrincipalRoute): PrincipalRoute {
  const { methods } = entry;
  const allow = allowHeader(entry);
  return (request, response, principal) => {
    const { method = "" } = request;
    if (methods.includes(method)) return route(request, response, principal);
    const error = new SidecarError("METHOD_NOT_ALLOWED", `This path does not support ${method}; use ${methods.join(", ")}.`);
    refuse(request, response, error, { Allow: allow });
  };
}
