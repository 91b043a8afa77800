import type { IncomingMessage, ServerResponse } from "node:http";
import type { MemoryAccount, MemoryHolder } from "../memory/memory-budget.ts";
import type { Principal } from "../sessions/principal.ts";
import type { Session } from "../sessions/session.ts";
import type { RouteName } from "../routes.ts";

/** A request whose `url` is a path with a query. `originalUrl` is the whole target if it was in the absolute form, as with Express. */
export type RoutedRequest = IncomingMessage & { originalUrl?: string };

/** A handler that answers every request. */
export type Route = (request: IncomingMessage, response: ServerResponse) => void;

/** A handler that receives the principal of the request's token; undefined if no token is configured. */
export type PrincipalRoute = (request: IncomingMessage, response: ServerResponse, principal: Principal | undefined) => void;

/** A route and its entry in `ROUTES`. */
export type NamedRoute = readonly [name: RouteName, route: PrincipalRoute];

/** Returns the principal of an `Authorization` header, or undefined if the header has no valid token. */
export type Identify = (authorization: string | undefined) => Principal | undefined;

/** A request to the endpoint, its response, and the time at which its time limits begin. */
export interface Post {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly principal: Principal | undefined;
  readonly acceptedAtMs: number;
  /** The memory of its client. */
  readonly memory: MemoryAccount;
  /** The session that it names, if it was open when the request arrived. It may have ended meanwhile. */
  readonly session: Session | undefined;
}

/** Returns the holder of the memory that a request needs: its principal, or else the address of its peer. */
export function holderOf({ socket }: IncomingMessage, principal: Principal | undefined): MemoryHolder {
  return principal ?? socket.remoteAddress ?? "unknown";
}
