import { posix } from "node:path";

/** All paths besides the endpoint's own. */
export const ROUTES = {
  live: "/livez",
  ready: "/readyz",
  health: "/healthz",
  status: "/status",
  /** Only with LEGACY_SSE. */
  legacySse: "/sse",
  legacyMessages: "/messages",
} as const;

const { legacySse, legacyMessages, ...others } = ROUTES;
/** The endpoint cannot be at these: it is looked up first, and would hide them. */
export const RESERVED_PATHS: readonly string[] = Object.values(others);
export const LEGACY_PATHS: readonly string[] = [legacySse, legacyMessages];

/** True if a client or proxy may take the path for one of these. They decode, resolve dots and merge slashes; Express ignores case. */
export function isSamePath(path: string, paths: readonly string[]): boolean {
  const resolved = posix.normalize(decode(path)).replace(/(?<=.)\/$/, "");
  return paths.includes(resolved.toLowerCase());
}

function decode(path: string): string {
  try {
    return decodeURIComponent(path);
  } catch {
    return path;
  }
}
