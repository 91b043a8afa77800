export interface RouteEntry {
  readonly path: string;
  /** Besides OPTIONS, which every route supports. */
  readonly methods: readonly string[];
  readonly enabledBy?: "LEGACY_SSE" | "PAGE";
  /** If false, the route is also open to every origin and host. */
  readonly needsToken: boolean;
  /** Web pages of unknown names must not read it even without a token. */
  readonly isForOperators?: true;
  /** No other page may read it, whatever its origin. */
  readonly isSameOriginOnly?: true;
  readonly description: string;
}

/** Dispatch, reserved paths, `Allow` headers and docs/CONFIGURATION.md use this table. */
export const ROUTES = {
  endpoint: {
    // The default of PATH.
    path: "/mcp",
    methods: ["POST", "GET", "DELETE"],
    needsToken: true,
    description: "MCP endpoint (Streamable HTTP), set by PATH.",
  },
  live: {
    path: "/livez",
    methods: ["GET", "HEAD"],
    needsToken: false,
    description: "200 while the sidecar runs.",
  },
  ready: {
    path: "/readyz",
    methods: ["GET", "HEAD"],
    needsToken: false,
    description: "200 if the MCP server is ready, else 503, with the reason for clients that may read `/status`.",
  },
  health: {
    path: "/healthz",
    methods: ["GET", "HEAD"],
    needsToken: false,
    description: "As `/readyz`.",
  },
  status: {
    path: "/status",
    methods: ["GET", "HEAD"],
    needsToken: true,
    isForOperators: true,
    description: "State and counters as JSON.",
  },
  metrics: {
    path: "/metrics",
    methods: ["GET", "HEAD"],
    needsToken: true,
    isForOperators: true,
    description: "Metrics for Prometheus, unless METRICS is off.",
  },
  page: {
    path: "/",
    methods: ["GET", "HEAD"],
    enabledBy: "PAGE",
    needsToken: false,
    description: "Page.",
  },
  pageEvents: {
    path: "/page/events",
    methods: ["GET"],
    enabledBy: "PAGE",
    needsToken: true,
    isSameOriginOnly: true,
    description: "Its event stream.",
  },
  pageFile: {
    path: "/page/:file",
    methods: ["GET", "HEAD"],
    enabledBy: "PAGE",
    needsToken: false,
    description: "Its scripts and styles.",
  },
  legacySse: {
    path: "/sse",
    methods: ["GET"],
    enabledBy: "LEGACY_SSE",
    needsToken: true,
    description: "Event stream of HTTP+SSE.",
  },
  legacyMessages: {
    path: "/messages",
    methods: ["POST"],
    enabledBy: "LEGACY_SSE",
    needsToken: true,
    description: "Messages of its clients.",
  },
} as const satisfies Record<string, RouteEntry>;

export type RouteName = keyof typeof ROUTES;

const { endpoint: _, ...others } = ROUTES;
const OTHERS: readonly RouteEntry[] = Object.values(others);
/** PATH must not have them: the endpoint is matched first and would hide them. */
export const RESERVED_PATHS: readonly string[] = OTHERS.filter(({ enabledBy }) => enabledBy === undefined).map(({ path }) => path);
/** If LEGACY_SSE is on. */
export const LEGACY_PATHS: readonly string[] = OTHERS.filter(({ enabledBy }) => enabledBy === "LEGACY_SSE").map(({ path }) => path);

/** If PAGE is on. */
export const PAGE_PATHS: readonly string[] = [ROUTES.page.path, ROUTES.pageEvents.path];

/** Besides OPTIONS. */
export const ALL_METHODS: readonly string[] = [...new Set(Object.values<RouteEntry>(ROUTES).flatMap(({ methods }) => methods))];

export function allowHeader(methods: readonly string[]): string {
  return [...methods, "OPTIONS"].join(", ");
}
