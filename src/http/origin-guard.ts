import { isLocalhost, isLoopback, parseAuthority, parseOrigin } from "../authority.ts";

/** `*` for every origin; undefined for the default: those of this machine. */
export type AllowedOrigins = "*" | readonly string[] | undefined;

const LOCAL_ORIGIN = /^https?:\/\/(?:localhost|127\.0\.0\.1|\[::1\])(?::\d+)?$/;
/** A `Host` without a port means one of these; which, only a proxy that ends TLS in front of us knows. */
const DEFAULT_PORTS = [80, 443];

/** Makes the check of the `Origin` header. That an origin equals the host proves nothing: DNS rebinding makes them equal. */
export function createOriginCheck(allowed: AllowedOrigins): (origin: string) => boolean {
  if (allowed === "*") return () => true;
  if (allowed === undefined) return (origin) => LOCAL_ORIGIN.test(parseOrigin(origin) ?? "");
  const listed = new Set(allowed);
  return (origin) => listed.has(parseOrigin(origin) ?? "");
}

export interface HostCheckOptions {
  /** `host` for any port, or `host:port`; undefined for the default: the names of this machine, where it listens for itself only. */
  readonly allowedHosts: readonly string[] | undefined;
  /** Undefined for all interfaces. */
  readonly listenHost: string | undefined;
  /** Where every host would be allowed: not those that the page of an attacker may be at. */
  readonly refusesRebindable?: boolean;
}

/** Ends of names that nobody can register, so that no DNS server of an attacker answers for them. */
const UNREGISTRABLE_NAME = /(?:^|\.)(?:local|internal|localhost|svc)$/;
const IPV4_ADDRESS = /^\d+\.\d+\.\d+\.\d+$/;

/**
 * Makes the check of the `Host` header, or of the authority in the request line.
 *
 * @returns undefined where every host is allowed.
 */
export function createHostCheck(options: HostCheckOptions): ((authority: string) => boolean) | undefined {
  const { allowedHosts, listenHost, refusesRebindable = false } = options;
  if (allowedHosts === undefined && !isLoopback(listenHost)) return refusesRebindable ? (each) => !isRebindable(each) : undefined;
  const listed = new Set(allowedHosts);
  // Clients send the same host again and again.
  let lastAllowed: string | undefined;

  return (authority) => {
    if (authority === lastAllowed) return true;
    const parsed = parseAuthority(authority);
    if (parsed === undefined) return false;
    const { host, port } = parsed;
    const ports = port === undefined ? DEFAULT_PORTS : [port];
    if (!isLocalhost(host) && !listed.has(host) && !ports.some((each) => listed.has(`${host}:${each}`))) return false;
    lastAllowed = authority;
    return true;
  };
}

/** The authority in a request line of the absolute form (RFC 9112 §3.2.2), which stands for the `Host` header. */
export function targetAuthority(url: string): string | undefined {
  return url.startsWith("/") ? undefined : /^https?:\/\/([^/?]*)/i.exec(url)?.[1];
}

/** Whether this may be a name that a web page has, and that it made one of this machine: no address, and no name of a cluster or a LAN. */
function isRebindable(authority: string): boolean {
  const host = parseAuthority(authority)?.host;
  if (host === undefined) return true;
  return host.includes(".") && !IPV4_ADDRESS.test(host) && !host.startsWith("[") && !UNREGISTRABLE_NAME.test(host);
}
