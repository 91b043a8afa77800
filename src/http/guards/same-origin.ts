import type { IncomingMessage } from "node:http";
import { SidecarError } from "../../errors.ts";
import { reject } from "../reject.ts";
import type { Route } from "../route.ts";
import { parseAuthority, parseOrigin } from "./authority.ts";
import { type CrossOriginOptions, createCrossOriginCheck } from "./cross-origin.ts";
import { createHostCheck, type HostCheckOptions } from "./origin-guard.ts";

/** The values of `Sec-Fetch-Site` for the page itself, and for an address that a person has entered. */
const SAME_ORIGIN_SITES: ReadonlySet<string> = new Set(["same-origin", "none"]);

/**
 * Creates a function that returns true for a request of the sidecar's own page: its `Origin` equals its `Host`. DNS rebinding makes them equal
 * too. So, without a token, the host must be an address or a name that cannot be registered.
 */
export function createSameOriginTest(options: HostCheckOptions, hasToken: boolean): (request: IncomingMessage) => boolean {
  const isSafeHost = createHostCheck({ ...options, rejectsRebindable: !hasToken }) ?? ((): boolean => true);
  return ({ headers: { origin, host = "" } }) => {
    const named = parseAuthority(host);
    const page = parseAuthority(/^https?:\/\/(?<authority>.+)$/.exec(parseOrigin(origin ?? "") ?? "")?.groups?.["authority"] ?? "");
    if (named === undefined || page === undefined) return false;
    return named.host === page.host && named.port === page.port && isSafeHost(host);
  };
}

/** A header that a page of another origin cannot send without permission. Some browsers send neither `Origin` nor `Sec-Fetch-Site` to addresses without TLS. */
const PAGE_HEADER = "claw-mcp-stdio-page";

/** Creates a guard that rejects all pages but the sidecar's own, which sends the header above. */
export function createSameOriginGuard(options: CrossOriginOptions): (route: Route) => Route {
  const check = createCrossOriginCheck({ ...options, allowedOrigins: [] });
  return (route) => (request, response) => {
    const site = request.headers["sec-fetch-site"]?.toString();
    const rejection = check(request);
    if (
      rejection?.code === "ORIGIN_NOT_ALLOWED" ||
      (site !== undefined && !SAME_ORIGIN_SITES.has(site)) ||
      request.headers[PAGE_HEADER] === undefined
    ) {
      return reject(request, response, new SidecarError("ORIGIN_NOT_ALLOWED", "Only the sidecar's own page may read this.", {}, "page"));
    }
    if (rejection !== undefined) return reject(request, response, rejection);
    route(request, response);
  };
}
