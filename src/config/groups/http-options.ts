import { ROUTES } from "../../routes.ts";
import { limit, MAX_MS, option } from "../option.ts";
import { anyText, bearerToken, endpointPath, hosts, listenAddress, listenHost, oneOf, onOff, origins, port } from "../value-kinds.ts";

/** The sidecar waits for twice as long, at most 10 s more, and Node's timers have a limit. */
const MAX_IDLE_MS = MAX_MS - 10_000;

export const HTTP_OPTIONS = {
  addr: option({
    group: "HTTP",
    flag: "addr",
    name: "ADDR",
    placeholder: "HOST:PORT",
    description:
      "Listen address; takes precedence over HOST and PORT. Without a host, the sidecar listens on all interfaces; port 0 selects a free port, which is logged.",
    kind: listenAddress,
  }),
  host: option({
    group: "HTTP",
    flag: "host",
    name: "HOST",
    placeholder: "HOST",
    description: "Host to listen on, or `*` for all interfaces. The image sets `*`.",
    defaultText: "127.0.0.1",
    kind: listenHost,
  }),
  port: option({
    group: "HTTP",
    flag: "port",
    name: "PORT",
    placeholder: "PORT",
    description: "Listen port, `8080` or `:8080`.",
    defaultText: "8080",
    kind: port,
  }),
  adminAddr: option({
    group: "HTTP",
    flag: "admin-addr",
    name: "ADMIN_ADDR",
    placeholder: "HOST:PORT",
    description:
      "Listen address for `/status`, `/metrics` and the page, which the other address then lacks. Both have the health paths. Default: the address of the endpoint.",
    kind: listenAddress,
  }),
  page: option({
    group: "HTTP",
    flag: "page",
    name: "PAGE",
    placeholder: "on|off",
    description: "Web page at `/`. Default: `on` if only this machine can reach it.",
    kind: onOff,
    isSwitch: true,
  }),
  path: option({
    group: "HTTP",
    flag: "path",
    name: "PATH",
    placeholder: "PATH",
    description: "Path of the MCP endpoint.",
    defaultText: ROUTES.endpoint.path,
    kind: endpointPath,
  }),
  authToken: option({
    group: "HTTP",
    flag: "auth-token",
    name: "AUTH_TOKEN",
    placeholder: "TOKEN",
    description:
      "Bearer token that clients must send as `Authorization: Bearer TOKEN`. Without a token, every client may call. Prefer the variable, because flags appear in the process list; a token of fewer than 16 characters is logged as a warning.",
    kind: bearerToken,
    isSecret: true,
  }),
  authTokenFile: option({
    group: "HTTP",
    flag: "auth-token-file",
    name: "AUTH_TOKEN_FILE",
    placeholder: "FILE",
    description:
      "File of valid tokens, one per line, each of at least 16 characters; empty lines and lines that begin with # are ignored. Changes take effect without a restart, and the sessions of a removed token end. Cannot be combined with AUTH_TOKEN.",
    kind: anyText,
  }),
  requireAuth: option({
    group: "HTTP",
    flag: "require-auth",
    name: "REQUIRE_AUTH",
    placeholder: "on|off",
    description: "Mandatory authentication: with `on`, the sidecar does not start unless AUTH_TOKEN or AUTH_TOKEN_FILE is set.",
    defaultText: "off",
    kind: onOff,
    isSwitch: true,
  }),
  allowedOrigins: option({
    group: "HTTP",
    flag: "allowed-origins",
    name: "ALLOWED_ORIGINS",
    placeholder: "ORIGINS",
    description:
      "Origins of web pages that may send requests, such as `https://app.example,http://localhost:5173`, or `*` for all. Default: the origins of this machine (localhost, 127.0.0.1, [::1]) on any port.",
    kind: origins,
  }),
  allowedHosts: option({
    group: "HTTP",
    flag: "allowed-hosts",
    name: "ALLOWED_HOSTS",
    placeholder: "HOSTS",
    description:
      "Hosts that requests may name besides this machine, such as `mcp.example,10.0.0.5:8080`; without a port, any port is allowed. `*.mcp.example` allows all names below mcp.example, at any depth, but not that name itself; `*` allows all hosts. Default: none if the sidecar listens on loopback only, else all.",
    kind: hosts,
  }),
  legacySse: option({
    group: "HTTP",
    flag: "legacy-sse",
    name: "LEGACY_SSE",
    placeholder: "on|off",
    description:
      "HTTP+SSE transport of MCP 2024-11-05 for clients that support nothing newer; deprecated. `on` adds it at `/sse` and `/messages`.",
    defaultText: "off",
    kind: oneOf(["on", "off"]),
    isSwitch: true,
  }),
  modern: option({
    group: "HTTP",
    flag: "modern",
    name: "MODERN",
    placeholder: "on|off",
    description:
      "Requests without a session, of MCP 2026-07-28. `off` answers them as a server does that knows sessions only. With ISOLATION=session they are off.",
    defaultText: "on",
    kind: oneOf(["on", "off"]),
    isSwitch: true,
  }),
  requestTimeoutMs: limit(
    "HTTP",
    "REQUEST_TIMEOUT_MS",
    60_000,
    MAX_MS,
    "Time limit of a request, from its arrival to the server's response. Progress and server requests renew it, up to ten times this value in all.",
  ),
  streamAfterMs: limit(
    "HTTP",
    "STREAM_AFTER_MS",
    10_000,
    MAX_MS,
    "Time after which a pending response becomes an event stream, if the client accepts one. A message that precedes the response starts the stream sooner.",
  ),
  keepAliveMs: limit(
    "HTTP",
    "KEEP_ALIVE_MS",
    15_000,
    MAX_MS,
    "Interval of comments on open event streams. They keep proxies and clients from closing a quiet connection.",
  ),
  headersTimeoutMs: limit(
    "HTTP",
    "HEADERS_TIMEOUT_MS",
    10_000,
    MAX_MS,
    "Time limit for a client to send the headers of a request; a slower one gets 408.",
  ),
  bodyTimeoutMs: limit(
    "HTTP",
    "BODY_TIMEOUT_MS",
    60_000,
    MAX_MS,
    "Time limit for a client to send a whole request; a slower one gets 408.",
  ),
  connectionIdleTimeoutMs: limit(
    "HTTP",
    "CONNECTION_IDLE_TIMEOUT_MS",
    120_000,
    MAX_IDLE_MS,
    "Time after which a client should close its idle connection, which it is told in whole seconds. The sidecar closes it up to 10 s later. A balancer in front needs a shorter time of its own, so that no request is sent on a closing connection.",
  ),
  readerTimeoutMs: limit(
    "HTTP",
    "READER_TIMEOUT_MS",
    30_000,
    MAX_MS,
    "Time for which a client may leave pending output unread. Its connection is then closed, at the latest after 1.5 times this value.",
  ),
} as const;
