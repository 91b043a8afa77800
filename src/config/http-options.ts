import { ROUTES } from "../routes.ts";
import { limit, MAX_MS, option } from "./option.ts";
import { anyText, bearerToken, endpointPath, hosts, listenAddress, oneOf, onOff, origins, port } from "./value-kinds.ts";

export const HTTP_OPTIONS = {
  addr: option({
    group: "HTTP",
    flag: "addr",
    name: "ADDR",
    placeholder: "HOST:PORT",
    description: "Listen address; wins over PORT. Without a host: all interfaces. Port 0: any free port, named in the log.",
    defaultText: ":8080",
    kind: listenAddress,
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
      "Every request to the endpoint needs `Authorization: Bearer TOKEN`. Default: open. One of fewer than 16 characters is warned about. Prefer the variable: flags show in the process list.",
    kind: bearerToken,
    isSecret: true,
  }),
  authTokenFile: option({
    group: "HTTP",
    flag: "auth-token-file",
    name: "AUTH_TOKEN_FILE",
    placeholder: "FILE",
    description:
      "Tokens of at least 16 characters, one a line, any of which will do; empty lines and lines that begin with # do not count. Read again when it changes: a session ends with the token that made it. Not together with AUTH_TOKEN.",
    kind: anyText,
  }),
  requireAuth: option({
    group: "HTTP",
    flag: "require-auth",
    name: "REQUIRE_AUTH",
    placeholder: "on|off",
    description: "`on`: the sidecar does not start without AUTH_TOKEN or AUTH_TOKEN_FILE, whatever it listens on.",
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
      "Origins whose web pages may call, `https://app.example,http://localhost:5173`, or `*`. Default: those of this machine (localhost, 127.0.0.1, [::1]) at any port.",
    kind: origins,
  }),
  allowedHosts: option({
    group: "HTTP",
    flag: "allowed-hosts",
    name: "ALLOWED_HOSTS",
    placeholder: "HOSTS",
    description:
      "Hosts that requests may name besides those of this machine, `mcp.example,10.0.0.5:8080`; without a port: any. Default: none where only loopback is listened on, else any.",
    kind: hosts,
  }),
  legacySse: option({
    group: "HTTP",
    flag: "legacy-sse",
    name: "LEGACY_SSE",
    placeholder: "MODE",
    description:
      "`on`: the HTTP+SSE transport of MCP 2024-11-05 is offered too, at `/sse` and `/messages`, for clients that speak nothing newer. Deprecated.",
    defaultText: "off",
    kind: oneOf(["on", "off"]),
  }),
  requestTimeoutMs: limit(
    "HTTP",
    "REQUEST_TIMEOUT_MS",
    60_000,
    MAX_MS,
    "One request's time, from its arrival to the server's answer. Progress, and a question to the client, renew it, up to ten times.",
  ),
  streamAfterMs: limit(
    "HTTP",
    "STREAM_AFTER_MS",
    10_000,
    MAX_MS,
    "After how much silence an answer is begun as an event stream, for a client that reads one; sooner where there is something to send.",
  ),
  keepAliveMs: limit(
    "HTTP",
    "KEEP_ALIVE_MS",
    15_000,
    MAX_MS,
    "How often an open event stream gets a comment, so that nobody takes it for dead.",
  ),
  headersTimeoutMs: limit("HTTP", "HEADERS_TIMEOUT_MS", 10_000, MAX_MS, "How long a client may take to send the headers of a request."),
  bodyTimeoutMs: limit("HTTP", "BODY_TIMEOUT_MS", 60_000, MAX_MS, "How long it may take to send all of a request; then 408."),
  readerTimeoutMs: limit(
    "HTTP",
    "READER_TIMEOUT_MS",
    30_000,
    MAX_MS,
    "How long a client may read nothing of what waits to be read by it; then its connection is cut, at the latest after half as long again.",
  ),
} as const;
