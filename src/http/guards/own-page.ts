import type { IncomingMessage } from "node:http";
import { SidecarError } from "../../errors.ts";
import { reject } from "../reject.ts";
import type { Route } from "../route.ts";
import { parseAuthority, parseOrigin } from "./authority.ts";
import { type CrossOriginOptions, createCrossOriginCheck } from "./cross-origin.ts";
import { createHostCheck, type HostCheckOptions } from "./origin-guard.ts";

/** The values of `Sec-Fetch-Site` for the page itself, and for an address that a person has entered. */
const OWN_SITES: ReadonlySet<string> = new Set(["same-origin", "none"]);

/**
 * Creates a function that returns true for a request of the sidecar's own page: its origin is the host that the request names. DNS rebinding
 * makes them equal too, so without a token the host must be one that it cannot use.
 */
export function createOwnPageTest(options: HostCheckOptions, hasToken: boolean): (request: IncomingMessage) => boolean {
  const isSafeHost = createHostCheck({ ...options, rejectsRebindable: !hasToken }) ?? ((): boolean => true);
  return ({ headers: { origin, host = "" } }) => {
    const named = parseAuthority(host);
    const page = parseAuthority(/^https?:\/\/(?<authority>.+)$/.exec(parseOrigin(origin ?? "") ?? "")?.groups?.["authority"] ?? "");
    if (named === undefined || page === undefined) return false;
    return named.host === page.host && named.port === page.port && isSafeHost(host);
  };
}

/** Creates a guard that rejects all pages but the sidecar's own, and sends no CORS headers. Programs that are no browsers pass. */
export function createOwnPageGuard(options: CrossOriginOptions): (route: Route) => Route {
  const check = createCrossOriginCheck({ ...options, allowedOrigins: [] });
  return (route) => (request, response) => {
    const site = request.headers["sec-fetch-site"]?.toString();
    const rejection = check(request);
    if (rejection?.code === "ORIGIN_NOT_ALLOWED" || (site !== undefined && !OWN_SITES.has(site))) {
      return reject(request, response, new SidecarError("ORIGIN_NOT_ALLOWED", "Only the sidecar's own page may read this.", {}, "page"));
    }
    if (rejection !== undefined) return reject(request, response, rejection);
    route(request, response);
  };
}
