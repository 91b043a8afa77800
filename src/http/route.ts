import type { IncomingMessage, ServerResponse } from "node:http";
import type { Principal } from "../sessions/session.ts";
import type { RouteName } from "../routes.ts";

/** A request whose `url` is a path with a query. `originalUrl` is the whole target if it was in the absolute form, as with Express. */
export type RoutedRequest = IncomingMessage & { originalUrl?: string };

/** A handler that answers every request. */
export type Route = (request: IncomingMessage, response: ServerResponse) => void;

/** A handler that receives the principal of the request's token; undefined if no token is configured. */
export type PrincipalRoute = (request: IncomingMessage, response: ServerResponse, principal: Principal | undefined) => void;

/** A route and its entry in `ROUTES`. */
export type NamedRoute = readonly [name: RouteName, route: PrincipalRoute];

/** A POST request, its response, and the time at which its time limits begin. */
export interface Post {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly principal: Principal | undefined;
  readonly acceptedAtMs: number;
}
