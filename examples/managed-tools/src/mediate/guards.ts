import { isIP } from "node:net";
import type { Context, Hono, Next } from "hono";
import { formatOf } from "./responses.ts";

/** All that a model needs. A provider has files, keys and former requests elsewhere, and could decode a path, and find one of these. */
const PASSED =
  /^(?:POST \/v1\/(?:chat\/completions|completions|embeddings|messages(?:\/count_tokens)?|responses)|GET \/v1\/models(?:\/[^%;]+)?)$/;
/** Names that nobody can register: of a container, a cluster or a LAN. */
const PRIVATE_NAME = /^[^.]+$|\.(?:internal|local|svc)$/;

/** Returns the reason why a request does not reach the provider. @param path without the name of the agent. */
export function rejectionOf(method: string, path: string): string | undefined {
  if (path.startsWith("/v1/v1/")) return "The base URL of this client must be without /v1.";
  return PASSED.test(`${method} ${path}`) ? undefined : `The proxy does not pass ${method} ${path.slice(0, 64)} to models.`;
}

/**
 * Rejects the requests of web pages, which any page that a developer opens could send. Browsers do not mark those of a page whose own name resolves to
 * the proxy (DNS rebinding), so its name must be one that no page can have.
 */
export function rejectPages(app: Hono, listenHost: string, allowedHosts: readonly string[]): void {
  const isLocal = isLoopback(listenHost);
  const isHostAllowed = (host: string): boolean =>
    isIP(host.replaceAll(/[[\]]/g, "")) !== 0 ||
    host === "localhost" ||
    allowedHosts.includes(host) ||
    (!isLocal && PRIVATE_NAME.test(host));
  app.use(async (context: Context, next: Next) => {
    const isPage = context.req.header("origin") !== undefined || context.req.header("sec-fetch-site") !== undefined;
    if (isPage) return context.json(formatOf(context).error(403, "Web pages may not use the proxy."), 403);
    // A target with a host of its own replaces the header. Browsers send none.
    const hosts = [context.req.url, `http://${context.req.header("host") ?? "localhost"}`].map(hostOf);
    const host = hosts.find((each) => !isHostAllowed(each));
    if (host === undefined) return next();
    return context.json(
      formatOf(context).error(403, `The host "${host}" is not allowed; to allow it, start the proxy with --allow-host.`),
      403,
    );
  });
}

/** Returns a host in lower case, without the final dot of an absolute name. */
export function hostOf(url: string): string {
  return URL.parse(url)?.hostname.replace(/\.$/, "") ?? "";
}

function isLoopback(host: string): boolean {
  return host === "localhost" || host === "::1" || (isIP(host) === 4 && host.startsWith("127."));
}
