/** A part of a document that tells users what they can rely on. */
export interface Quote {
  /** Its path from the root of the repository. */
  readonly document: string;
  /** The exact words; any white space stands for any other. */
  readonly sentence: string;
}

/** All that README.md, SECURITY.md and docs/operations promise: what each name stands for, told where. `proves` has the one test of each. */
export const PROMISES = {
  "a crash answers its calls with the reason": [
    readme("**Every request is answered.** After a crash, in-flight requests fail with the exit reason and a retry hint."),
    security("Every call gets a response even if the server hangs, crashes, or is in a crash loop."),
  ],
  "requests wait for a restart": [
    readme("Later requests wait for the restart."),
    operations("restarts", "held, for HOLD_TIMEOUT_MS at most"),
  ],
  "sessions survive a restart of the server": [
    readme("Sessions survive."),
    operations("sessions", "A restart of the server does not end a session."),
  ],
  "a new process is told its clients' state": [
    readme("The sidecar sends it `initialize`, log level, subscriptions and the notice of changed roots again"),
  ],
  "clients never get messages of each other": [
    readme("**Clients never receive each other's responses**, even if all of them send the same request ids to one shared server process."),
    security("Responses, server requests and progress reach only the client that they are for, whatever ids clients use"),
  ],
  "messages arrive unchanged": [
    readme("**Messages arrive unchanged**: unknown fields, key order and large numbers included."),
    security("Rules look at the same bytes that the sidecar edits."),
  ],
  "sessions take turns": [
    readme("Sessions take turns, so a busy client does not block the others."),
    security("Queueing is fair: a flood of one session delays the others by one request."),
    operations("timeouts-and-overload", "Queueing is fair: sessions take turns"),
  ],
  "requests beyond a limit can be repeated": [
    readme("**Every wait and every buffer has a limit.**"),
    operations("timeouts-and-overload", "Requests beyond a limit are rejected at once."),
    operations("timeouts-and-overload", "Every MCP error with 429 or 503 has `Retry-After` and `sent: false`"),
  ],
  "a request that takes too long is cancelled": [
    readme("**Every wait and every buffer has a limit.**"),
    operations("timeouts-and-overload", "REQUEST_TIMEOUT; the server gets `notifications/cancelled`"),
  ],
  "sessions survive a restart of the sidecar": [
    readme("**Sessions survive a restart of the sidecar**, and any of several replicas answers them"),
    operations(
      "replicas",
      "With a session key, each replica answers each request of a session. The same applies to a sidecar after its restart.",
    ),
    operations("sessions", "The client goes on with the same id, without `initialize`."),
  ],
  "keys of sessions are rotated": [
    operations("replicas", "While the restarts go on, some replicas sign with the old key and some with the new one. All accept both."),
  ],
  "sessions that clients sign count as new": [security("Such ids count for SESSIONS_PER_MINUTE.")],
  "a stream that breaks is resumed": [
    operations("timeouts-and-overload", "Events that it missed on a stream are kept for replay"),
    security("The same holds for streams and their replay."),
  ],
  "/livez and /readyz tell the state": [
    readme(
      "`/readyz` answers 200 when the server has finished its MCP handshake, and 503 with the reason otherwise. `/livez` answers 200 while the sidecar runs.",
    ),
    operations("health", "Three paths answer GET and HEAD."),
    operations("health", "That command asks `/healthz` and exits with 0 or 1."),
  ],
  "/status has the state and the history": [
    readme("the state in `/status`"),
    operations("status", "`GET /status` answers 200 with one JSON object about the present state of the sidecar and its history."),
    operations("status", "The object does not contain the command, its arguments or environment variables."),
  ],
  "/metrics counts for Prometheus": [readme("metrics for Prometheus at `/metrics`")],
  "the page shows the state": [
    readme("[a page](docs/operations/page.md) that shows the server's state, requests and log, and lets you try its tools"),
    operations("page", "PAGE is on by default if the sidecar listens on loopback"),
  ],
  "no other page reads or frames the page": [
    security("No other page can read or frame the page of the sidecar."),
    operations("page", "Pages of other origins can neither read it nor frame it, whatever ALLOWED_ORIGINS has."),
  ],
  "ADMIN_ADDR has the administration for itself": [
    operations("status", "With ADMIN_ADDR, `/status` and `/metrics` are at that address only."),
  ],
  "the log has one JSON object a line": [
    readme("If stdout is not a terminal, the log is JSON, one object a line."),
    operations("logs", "Every line has `level`, `time` (RFC 3339, UTC), `pid` (of the sidecar) and `msg`."),
  ],
  "stderr of the server is in the log": [operations("logs", "stdout, line by line, as log lines with `stream`")],
  "failed requests are logged without contents": [
    readme("a log of failed requests"),
    security("The log of requests has no tokens, session ids, arguments, results or URLs."),
    operations("logs", "It has names, times and sizes, but no arguments, results, error messages, URLs, tokens or session ids."),
  ],
  "a flood of requests cannot fill the log": [security("A flood of requests cannot fill it.")],
  "a log that is not read delays no message": [operations("logs", "The log never delays a message.")],
  "no part of a message is logged": [
    security("No part of a message on its stdout is logged."),
    operations("logs", "messages, arguments and results of calls"),
  ],
  "starts that fail alike are logged once": [operations("logs", "A server that fails at every start prints the same lines each time")],
  "the context of a trace reaches the server": [
    operations("logs", "It copies the headers `traceparent`, `tracestate` and `baggage` of a POST into the `_meta` of its requests"),
  ],
  "a terminal shows a banner": [
    readme("When the server is ready, the terminal shows:"),
    operations("logs", "A banner follows: address, command, the tools that clients may see, and a command to try them."),
  ],
  "a server that fails on a terminal ends the sidecar": [
    readme("In a terminal, if the server fails before it is ready, the sidecar prints the reason and exits."),
    operations("exit-codes", "the exit of a server that was never ready ends the sidecar with the server's code"),
  ],
  "no shell interprets the command": [readme("Everything after `--` is the command line of the server. No shell interprets it.")],
  "variables of the sidecar do not reach the server": [
    readme("All other variables, such as API keys, reach the server. Variables that begin with `CLAW_MCP_STDIO_` do not."),
    security("It does not get the sidecar's own variables."),
    operations("secrets", "The server gets the environment of the sidecar, except variables that begin with `CLAW_MCP_STDIO_`."),
  ],
  "the sidecar listens on loopback": [
    readme("The sidecar listens on port 8080 of 127.0.0.1."),
    security("Outside the image, the sidecar listens on 127.0.0.1 unless HOST or ADDR says otherwise."),
  ],
  "clients without a session use a server of sessions": [
    readme("**Any client uses any server**, with sessions (MCP up to 2025-11-25) or without (2026-07-28)."),
    operations("stateless", "The sidecar serves such requests beside those of sessions, on the same path."),
  ],
  "clients of sessions use a server without sessions": [
    readme("**Any client uses any server**, with sessions (MCP up to 2025-11-25) or without (2026-07-28)."),
    operations("servers-without-sessions", "Clients of earlier revisions use it through the sidecar as any other server."),
  ],
  "questions of a server reach its client": [readme("Questions of a server (sampling, elicitation) reach clients that declare them.")],
  "a question reaches only a client that has declared it": [
    security("A question of a server without sessions reaches only a client that has declared it."),
    operations("stateless", "If the client has not declared what it asks, the request gets MISSING_CAPABILITY instead."),
  ],
  "a subscription without a session survives a restart": [
    operations(
      "stateless",
      "survives a restart of the server, and then gets one change of each list. It ends gracefully at the end of the sidecar.",
    ),
  ],
  "clients without a session may use the same ids": [
    security("They may use the same ids: each client gets its own messages."),
    security("Only the end of its connection cancels a request."),
    operations("stateless", "If the client disconnects, the server gets `notifications/cancelled`."),
  ],
  "clients without a session have their token's limits": [
    security("Requests without a session have the limits of their client."),
    operations("stateless", "The name that it gives in `clientInfo` does not count."),
  ],
  "a process that may ask serves one client": [
    security("A server process that may ask questions serves one client for its whole life."),
    security("If sessions share a server, its requests are rejected."),
  ],
  "log messages of two tokens are not mixed": [
    security("Log messages of a shared server are dropped once its process has got messages of two clients."),
  ],
  "a question's state is valid once, for one token": [
    security("is valid once, for one token, method, name and arguments."),
    operations("stateless", "A state is valid once, for the same client, method, name and arguments."),
  ],
  "calls that wait for answers have limits": [security("Such calls have limits. No such call is ended to make room for another.")],
  "the state of a server is sealed for one token": [
    security("a `requestState` of another token or tool, or a forged one, does not reach the server."),
    operations("stateless", "With AUTH_TOKEN_FILE, the sidecar seals the state, because the server sees one client only."),
  ],
  "tasks belong to their token": [
    security("A client cannot read or cancel the last 1000 tasks of another token, even if it knows their ids."),
    operations("stateless", "With AUTH_TOKEN_FILE, only the token that created a task may use it"),
  ],
  "ISOLATION=session gives each client its own process": [
    readme("`--isolation session` gives each session of a server with sessions its own process"),
    operations("sessions", "MAX_PRIVATE_SERVERS limits their number."),
  ],
  "discover finds differences to the review": [
    readme("If any tool differs from that file, `discover --check` prints each difference and exits with 3."),
    operations("exit-codes", "`discover --check`: the server's tools differ from the descriptor"),
    operations("pinned-descriptor", "It prints each changed field, with invisible characters made visible, and exits with 3."),
  ],
  "tools that differ from the review do not exist": [
    readme("A sidecar with `--descriptor FILE` serves only tools that match the review."),
    security("With DESCRIPTOR, tools that differ from the review do not exist for clients."),
    operations("pinned-descriptor", "All others are absent from `tools/list`. Calls of them fail with TOOL_NOT_FOUND"),
  ],
  "hidden tools do not exist": [
    readme("**You decide who may call which tools**, with which arguments, how often and for how long."),
    security("Calls of them never reach the server, and get the same response as those of unknown tools."),
    operations("tool-policy", "TOOL_NOT_FOUND, with the same text for hidden tools and for tools that do not exist"),
  ],
  "invalid arguments do not reach the server": [
    security("With ARGUMENT_CHECK=enforce, arguments that violate the tool's schema do not reach the server."),
    operations("tool-policy", "a result with `isError` that names each wrong field"),
  ],
  "a check of arguments keeps nothing busy": [
    security("Neither schema nor arguments keep the sidecar busy. No arguments switch off the check."),
  ],
  "calls have limits per minute": [
    security("Calls and sessions have the [limits](docs/operations/tool-policy.md) that are set."),
    operations("timeouts-and-overload", "A burst may use up the full number at once."),
  ],
  "long results are truncated": [
    security("Its output has limits: MAX_LINE_BYTES, MAX_RESULT_BYTES,"),
    operations("tool-policy", "the truncated result, with `_meta.truncated`"),
  ],
  "a client without a token learns only the state": [
    security("With a token set, a client without one learns only the state of the server. It cannot open, use or end anything."),
    operations("tokens", "`/livez`, `/readyz` and `/healthz` answer without it"),
    operations("health", 'the body is only `{"status":…,"state":…}`'),
  ],
  "REQUIRE_AUTH needs a token": [
    security("With REQUIRE_AUTH it does not start without a token."),
    operations("tokens", "the sidecar does not start without a token"),
  ],
  "tokens are rotated without a restart": [
    security("Tokens are rotated without a restart. A token removed from AUTH_TOKEN_FILE loses its sessions, calls and streams."),
    security("A broken file changes nothing."),
    operations("tokens", "leaves the tokens as they were"),
  ],
  "the token is never passed to the server": [security("The client's token is never passed to the server.")],
  "foreign and altered session ids are unknown": [
    security("Altered ids, expired ones, and those of another key or token get the same 404 as an unknown one."),
  ],
  "secrets are masked": [
    security("Tokens of the sidecar, and values of variables whose names look like credentials, are masked"),
    operations("secrets", "Secrets are masked in logs, errors, `/readyz`, `/status` and `--check-config`."),
  ],
  "bodies and headers have limits": [
    security("Bodies, headers, their time of arrival, queues and unread output have limits."),
    security("Without a session, at most 64 KiB are read, except for `initialize`."),
    operations("timeouts-and-overload", "INVALID_REQUEST, with 431; the connection is closed"),
  ],
  "ambiguous messages are rejected": [
    security("A message that two parsers could read differently is rejected, such as one with duplicate members."),
  ],
  "forbidden messages do not reach the server": [
    security("Messages that MCP's schemas forbid for every method do not reach the server either."),
  ],
  "a connection has at most 16 requests": [
    security("A connection may have 16 unanswered requests."),
    operations(
      "timeouts-and-overload",
      "the next one gets SESSION_OVERLOADED after the responses before it, and the connection is closed.",
    ),
  ],
  "connections without a token push out no other": [
    security("Connections without a valid token never displace one that has presented a valid token."),
    operations("timeouts-and-overload", "Afterwards, its connection is never closed to make room."),
  ],
  "a client with many sessions evicts only its own": [
    security(
      "A client with a quarter of MAX_SESSIONS evicts no session of others, and leaves a quarter to them. No session in use is evicted.",
    ),
    operations("sessions", "A session in use is never evicted."),
  ],
  "all messages share one memory budget": [
    security("clients that use much of it get 503, and others are served."),
    operations("sizing", "All messages together have one limit, MEMORY_BUDGET_BYTES"),
  ],
  "slow and silent clients are disconnected": [
    security("Bodies, headers, their time of arrival, queues and unread output have limits."),
    operations("timeouts-and-overload", "408. A connection that has sent nothing is closed without a response"),
  ],
  "no server message ends or freezes the sidecar": [
    security("No message up to MAX_LINE_BYTES ends or freezes the sidecar."),
    security("Its output has limits: MAX_LINE_BYTES,"),
    operations("timeouts-and-overload", "UPSTREAM_RESPONSE_TOO_LARGE for its request; the server keeps running"),
  ],
  "a server cannot answer other requests, or twice": [security("It cannot answer a request that it did not get, nor one twice.")],
  "text that a server prints forges no response": [
    security("A client cannot forge the response to another one by text that the server prints"),
  ],
  "a defect fails one request": [
    security("A defect of the sidecar fails one request, or at worst one server."),
    operations("status", "bugs of the sidecar, each of which failed one request or one server at most"),
  ],
  "SIGUSR1 opens no inspector": [
    security("It cannot open Node's inspector in the sidecar by SIGUSR1."),
    operations("secrets", "SIGUSR1 does nothing."),
  ],
  "a hung server is restarted": [
    security("Every call gets a response even if the server hangs, crashes, or is in a crash loop."),
    operations("restarts", "Calls in flight fail at once with UPSTREAM_EXITED; the reason begins with `hung: no output while`."),
  ],
  "calls do not restart a server that answers pings": [security("No calls of a client restart a server that answers pings")],
  "a crash loop is told, and ends": [
    security("Every call gets a response even if the server hangs, crashes, or is in a crash loop."),
    operations("restarts", "Held and new requests are rejected at once with UPSTREAM_FAILED (503, `Retry-After`)."),
    operations("restarts", "By default the sidecar keeps trying, so a dependency that comes back is enough to recover."),
    operations("restarts", "`likelyCause` names it with its remedy"),
  ],
  "RESTART_LIMIT ends the sidecar": [
    operations("restarts", "With RESTART_LIMIT=N, the sidecar gives up after N restarts without a stable run between them."),
    operations("exit-codes", "RESTART_LIMIT is reached"),
  ],
  "the whole process group ends": [
    security("Its process group ends with it."),
    operations("shutdown", "At a restart and at shutdown the whole group is terminated, with SIGKILL if necessary"),
  ],
  "a killed sidecar leaves no server": [operations("shutdown", "By the lifecycle of MCP, a stdio server then exits.")],
  "requests in flight finish at the end": [
    operations("shutdown", "Requests in flight and held requests may finish within DRAIN_TIMEOUT_MS."),
    operations("shutdown", "new requests get 503 SHUTTING_DOWN with `Retry-After`"),
    operations("restarts", "those in flight or held may finish; new ones are rejected: SHUTTING_DOWN"),
  ],
  "requests are served during PRE_STOP_MS": [
    operations("replicas", "For PRE_STOP_MS, requests are still served. A load balancer notices the 503 meanwhile."),
    operations(
      "shutdown",
      "`/readyz` and `/healthz` are 503 meanwhile, with the state `stopping`, and each response closes its connection.",
    ),
  ],
  "unanswered requests do not delay the end": [
    operations("shutdown", "Unanswered requests get SHUTTING_DOWN at the timeout; `sent` and `retrySafe` tell if they can be sent again."),
    operations("exit-codes", "stopped by SIGTERM, SIGINT or SIGHUP, even if requests were still unanswered at DRAIN_TIMEOUT_MS"),
  ],
  "a second signal ends the sidecar at once": [
    operations("shutdown", "A second SIGTERM or SIGINT kills all process groups and ends the sidecar at once."),
    operations("exit-codes", "ended by a second signal of number n: 143 for SIGTERM, 130 for SIGINT"),
  ],
  "a command that cannot be started ends the sidecar": [
    operations("exit-codes", "COMMAND, or the interpreter that it names, does not exist"),
    operations("exit-codes", "COMMAND may not be executed"),
  ],
  "a taken port ends the sidecar": [operations("exit-codes", "the sidecar cannot listen on the address")],
  "an invalid configuration lists every problem": [operations("exit-codes", "the configuration is invalid; stderr lists every problem")],
  "--check-config prints what is in effect": [readme("A flag overrides its variable, and `--check-config` prints what is in effect.")],
  "pages of other origins are rejected": [
    security(
      "A page of another origin is rejected before its request is read. Only pages from this machine or an origin in ALLOWED_ORIGINS may call the sidecar.",
    ),
  ],
  "DNS rebinding is rejected": [
    security("pages whose own name resolves to this machine are rejected (DNS rebinding). Such pages can read only the state."),
  ],
  "HTTP+SSE is off by default": [readme("The HTTP+SSE transport of 2024-11-05 is off by default (`--legacy-sse=on`).")],
  "HTTP+SSE has the same guards": [security("HTTP+SSE has the same guards.")],
} as const satisfies Readonly<Record<string, readonly Quote[]>>;

export type PromiseName = keyof typeof PROMISES;

function readme(sentence: string): Quote {
  return { document: "README.md", sentence };
}

function security(sentence: string): Quote {
  return { document: "SECURITY.md", sentence };
}

function operations(page: string, sentence: string): Quote {
  return { document: `docs/operations/${page}.md`, sentence };
}
