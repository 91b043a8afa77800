import { SidecarError } from "../../errors.ts";
import { allowHeader, type RouteEntry } from "../../routes.ts";
import { discardBody, reject } from "../reject.ts";
import type { PrincipalRoute, Route } from "../route.ts";

/** Answers OPTIONS requests, and passes all others to the route. */
export function answerOptions(entry: Pick<RouteEntry, "methods">, route: Route): Route {
  const allow = allowHeader(entry);
  return (request, response) => {
    if (request.method !== "OPTIONS") return route(request, response);
    response.writeHead(204, { Allow: allow }).end();
    discardBody(request);
  };
}

/** Rejects methods that the route does not support. @param hint the end of the message. */
export function guardMethod(entry: RouteEntry, route: PrincipalRoute, hint = ""): PrincipalRoute {
  const { methods } = entry;
  const allow = allowHeader(entry);
  return (request, response, principal) => {
    const { method = "" } = request;
    if (methods.includes(method)) return route(request, response, principal);
    const error = new SidecarError("METHOD_NOT_ALLOWED", `This path does not support ${method}; use ${methods.join(", ")}.${hint}`);
    reject(request, response, error, { Allow: allow });
  };
}
