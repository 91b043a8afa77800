import type { IncomingMessage, ServerResponse } from "node:http";
import type { Principal } from "../mux/session.ts";
import type { RouteName } from "../routes.ts";

/** Answers every request that it is given. */
export type Route = (request: IncomingMessage, response: ServerResponse) => void;

/** A route that is told whose token the request has; undefined if no token is configured. */
export type PrincipalRoute = (request: IncomingMessage, response: ServerResponse, principal: Principal | undefined) => void;

/** A route and its entry in `ROUTES`. */
export type NamedRoute = readonly [name: RouteName, route: PrincipalRoute];

/** A POST while it is handled: where its answer goes, and what its time limits count from. */
export interface Post {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly principal: Principal | undefined;
  readonly acceptedAtMs: number;
}
