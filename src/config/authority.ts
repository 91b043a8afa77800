export interface ListenAddress {
  /** Undefined for all interfaces. */
  readonly host: string | undefined;
  /** 0 for any free port. */
  readonly port: number;
}

const MAX_PORT = 65_535;
/** ASCII only, as browsers send it. `URL` could convert other characters to an allowed name. */
const HOST_AND_PORT = String.raw`(?<host>\[[\da-f:.]+\]|[\w.-]+)(?::(?<port>\d{1,5}))?`;
const AUTHORITY = new RegExp(`^${HOST_AND_PORT}$`, "i");
const ORIGIN = new RegExp(String.raw`^(?<scheme>[a-z][a-z\d+.-]*)://${HOST_AND_PORT}$`, "i");

const DEFAULT_PORTS: ReadonlyMap<string, number> = new Map([
  ["http", 80],
  ["https", 443],
]);

/** @returns `host` in lower case, without the final dot. An IPv6 address has its shortest form, in brackets. */
export function parseAuthority(text: string): { readonly host: string; readonly port: number | undefined } | undefined {
  const groups = AUTHORITY.exec(text)?.groups;
  const host = canonicalHost(groups?.["host"] ?? "")?.replace(/\.$/, "");
  const port = groups?.["port"] === undefined ? undefined : Number(groups["port"]);
  return host === undefined || host === "" || (port ?? 0) > MAX_PORT ? undefined : { host, port };
}

/** In the form of browsers. A dot at the end of the name is kept: it makes a different origin. */
export function parseOrigin(text: string): string | undefined {
  const groups = ORIGIN.exec(text)?.groups;
  const scheme = (groups?.["scheme"] ?? "").toLowerCase();
  const written = (groups?.["host"] ?? "").toLowerCase();
  const defaultPort = DEFAULT_PORTS.get(scheme);
  // The host of another scheme, such as that of a browser extension, is a name and never an address.
  const host = defaultPort === undefined ? written : canonicalHost(written);
  const port = Number(groups?.["port"] ?? defaultPort ?? 0);
  if (host === undefined || host === "" || port > MAX_PORT) return undefined;
  return `${scheme}://${host}${groups?.["port"] === undefined || port === defaultPort ? "" : `:${port}`}`;
}

/** Regardless of DNS. @param host as of `parseAuthority`. */
export function isLocalhost(host: string): boolean {
  return /^(?:localhost|127\.\d+\.\d+\.\d+|\[::1\]|\[::ffff:7f[\da-f]{2}:[\da-f]+\])$/.test(host);
}

/** @param listenHost undefined for all interfaces. */
export function isLoopback(listenHost: string | undefined): boolean {
  if (listenHost === undefined) return false;
  const parsed = parseAuthority(bracketed(listenHost));
  return parsed !== undefined && isLocalhost(parsed.host);
}

export function bracketed(host: string): string {
  return host.includes(":") ? `[${host}]` : host;
}

function canonicalHost(host: string): string | undefined {
  return URL.parse(`http://${host}`)?.hostname;
}
