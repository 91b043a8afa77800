import { isLocalhost, isLoopback, parseAuthority, parseOrigin } from "./authority.ts";

/** `*` for every origin; undefined for the default, the origins of this machine. */
export type AllowedOrigins = "*" | readonly string[] | undefined;

const LOCAL_ORIGIN = /^https?:\/\/(?:localhost|127\.0\.0\.1|\[::1\])(?::\d+)?$/;
/** The possible ports of a `Host` without a port. Only a proxy that terminates TLS in front of the sidecar knows the actual one. */
const DEFAULT_PORTS = [80, 443];

/** Creates the check of the `Origin` header. It does not compare the origin with the host: DNS rebinding makes them equal. */
export function createOriginCheck(allowed: AllowedOrigins): (origin: string) => boolean {
  if (allowed === "*") return () => true;
  if (allowed === undefined) return (origin) => LOCAL_ORIGIN.test(parseOrigin(origin) ?? "");
  const listed = new Set(allowed);
  return (origin) => listed.has(parseOrigin(origin) ?? "");
}

export interface HostCheckOptions {
  /**
   * `host` for any port, or `host:port`, each also as `*.host` for all names below a host. `*` allows all hosts. The default, undefined, allows
   * only this machine if `listenHost` is loopback, else all hosts.
   */
  readonly allowedHosts: "*" | readonly string[] | undefined;
  /** Undefined for all interfaces. */
  readonly listenHost: string | undefined;
  /** Rejects public host names, which an attacker's page may have, if all hosts would be allowed otherwise. */
  readonly rejectsRebindable?: boolean;
}

/** Endings of names that cannot be registered, so that an attacker's DNS server cannot resolve them. */
const UNREGISTRABLE_NAME = /(?:^|\.)(?:local|internal|localhost|svc)$/;
const IPV4_ADDRESS = /^\d+\.\d+\.\d+\.\d+$/;

/**
 * Creates the check of the `Host` header, or of the authority in the request line.
 *
 * @returns undefined if every host is allowed.
 */
export function createHostCheck(options: HostCheckOptions): ((authority: string) => boolean) | undefined {
  const { allowedHosts, listenHost, rejectsRebindable = false } = options;
  const allowsAll = allowedHosts === "*" || (allowedHosts === undefined && !isLoopback(listenHost));
  if (allowsAll) return rejectsRebindable ? (each) => !isRebindable(each) : undefined;
  const listed = new Set(allowedHosts);
  const endings = allowedHosts?.filter((host) => host.startsWith("*.")).map((host) => host.slice(1)) ?? [];
  const isListed = (host: string): boolean =>
    listed.has(host) || endings.some((ending) => host.length > ending.length && host.endsWith(ending));
  // Clients usually send the same host with each request.
  let lastAllowed: string | undefined;

  return (authority) => {
    if (authority === lastAllowed) return true;
    const parsed = parseAuthority(authority);
    if (parsed === undefined) return false;
    const { host, port } = parsed;
    const ports = port === undefined ? DEFAULT_PORTS : [port];
    if (!isLocalhost(host) && !isListed(host) && !ports.some((each) => isListed(`${host}:${each}`))) return false;
    lastAllowed = authority;
    return true;
  };
}

/** A request target in the absolute form (RFC 9112 §3.2.2), with any scheme: its authority, and the rest. */
const ABSOLUTE_FORM = /^[a-z][a-z\d+.-]*:\/\/([^/?]*)(.*)$/is;

/** Returns the authority of a request target in the absolute form, which replaces the `Host` header. */
export function targetAuthority(target: string): string | undefined {
  return target.startsWith("/") ? undefined : ABSOLUTE_FORM.exec(target)?.[1];
}

/** Returns the path and query of a request target, beginning with a slash; undefined if it has none, as `*`. */
export function pathAndQuery(target: string): string | undefined {
  if (target.startsWith("/")) return target;
  const rest = ABSOLUTE_FORM.exec(target)?.[2];
  return rest === undefined || rest.startsWith("/") ? rest : `/${rest}`;
}

/** True if DNS rebinding can use the host: it is neither an address nor a name of a cluster or LAN. */
function isRebindable(authority: string): boolean {
  const host = parseAuthority(authority)?.host;
  if (host === undefined) return true;
  return host.includes(".") && !IPV4_ADDRESS.test(host) && !host.startsWith("[") && !UNREGISTRABLE_NAME.test(host);
}
