import type { Config, Environment } from "./config/load.ts";
import { isLoopback } from "./http/guards/authority.ts";
import type { HttpListener } from "./http/listener.ts";
import { RequestLog } from "./http/request-log/request-log.ts";
import type { Identify } from "./http/route.ts";
import { AuthTokenReload } from "./auth/auth-token-reload.ts";
import { AuthTokens } from "./auth/auth-tokens.ts";
import { rereadAuthTokenFile } from "./config/auth-token-file.ts";
import { OPTIONS } from "./config/options.ts";
import { serverEnvironment } from "./config/environment.ts";
import { Counters } from "./observability/counters.ts";
import type { Descriptor } from "./descriptor/descriptor.ts";
import { Defects } from "./observability/defects.ts";
import { RequestMetrics } from "./observability/metrics/request-metrics.ts";
import type { RequestObserver } from "./observability/request-observer.ts";
import { observeAll } from "./observability/request-observers.ts";
import { loadPolicy } from "./load-policy.ts";
import type { ToolPolicy } from "./policy/tool-policy.ts";
import { MemoryBudget } from "./memory/memory-budget.ts";
import type { Log } from "./observability/log.ts";
import type { Secrets } from "./observability/redact.ts";
import { type McpServer, type ServerOptions, startServer } from "./server.ts";

/** The longest time until the operating system reports that a command cannot be started. */
const START_FAILURE_MS = 1000;
/** The time to read the responses that are sent at the end of the drain. */
const FLUSH_TIMEOUT_MS = 1000;

export interface SidecarOptions {
  readonly config: Config;
  readonly environment: Environment;
  /** The descriptor in DESCRIPTOR; undefined if not set. */
  readonly descriptor: Descriptor | undefined;
  /** The secrets of the environment and the configuration. */
  readonly secrets: Secrets;
  readonly version: string;
  readonly log: Log;
  /** Kills all processes at once, at any time from the start. */
  readonly kill: AbortSignal;
}

export interface Sidecar extends Pick<McpServer, "firstReady" | "failed" | "toolNames"> {
  /** The address of the listener, as `host:port`. */
  readonly address: string;
  /** The number of clients' calls that are not answered. */
  countCallsInFlight(): number;
  /** Drains, then terminates the MCP server. Bounded by DRAIN_TIMEOUT_MS and the waits of the termination. */
  stop(): Promise<void>;
}

function nowMs(): number {
  return performance.now();
}

/**
 * Starts the MCP server and the listener.
 *
 * @throws the system's error if the listener fails; no process is left running then.
 */
export async function startSidecar(options: SidecarOptions): Promise<Sidecar> {
  const { config, descriptor, secrets, version, log, kill } = options;
  const counters = new Counters();
  const defects = new Defects(log, counters);
  const memory = new MemoryBudget(config.memoryBudgetBytes);
  const { observer, requestLog, metrics } = createObservers(options, defects);
  const policy = await loadPolicy({ config, descriptor, counters, log, redact: secrets.redact, nowMs });
  kill.throwIfAborted();
  const [server, { createApps }, { HttpListener }] = await Promise.all([
    startServer({ ...serverOptions(options, memory, counters, policy), observer, onSessionEnd: metrics?.sessionEnded }),
    import("./http/app.ts"),
    import("./http/listener.ts"),
  ]);
  const tokens = new AuthTokens(config.authTokens);
  const identify: Identify = (authorization) => tokens.identify(authorization);
  const { path, allowedOrigins, allowedHosts, host: listenHost, adminAddr } = config;
  const apps = createApps({
    routes: server.routes,
    path,
    identify: config.authTokens.length === 0 ? undefined : identify,
    allowedOrigins,
    allowedHosts,
    listenHost,
    adminHost: adminAddr,
    version,
    status: () => server.status(),
    memory,
    replacer: secrets.replacer,
    requestSamples: metrics && (() => metrics.samples()),
    defects,
    nowMs,
  });
  const hasFailed = await hasFailedToStart(server);
  const listenerOptions = { limits: config, observer, identify, counters, defects, log, nowMs };
  const listener = new HttpListener(apps.main, listenerOptions);
  const admin = apps.admin && new HttpListener(apps.admin, listenerOptions);
  const { address, adminAddress } = await listen(listener, admin, config).catch(async (error: unknown) => {
    admin?.close();
    await server.stop();
    throw error;
  });
  // A sidecar whose command cannot be started ends at once, and does not announce its address.
  if (!hasFailed) logAddress(log, address, adminAddress, config);
  const tokenReload = reloadTokens(options, tokens, server, defects);
  return {
    address,
    firstReady: server.firstReady,
    failed: server.failed,
    toolNames: (timeoutMs) => server.toolNames(timeoutMs),
    countCallsInFlight: () => countCalls(server),
    async stop() {
      tokenReload?.close();
      await drainAndStop(listener, server, config.drainTimeoutMs);
      // Operators can watch the drain.
      admin?.close();
      requestLog?.close();
    },
  };
}

async function hasFailedToStart(server: McpServer): Promise<boolean> {
  const { pid, lastExit } = server.status().upstream;
  if (pid !== undefined || lastExit !== undefined) return false;
  return (await Promise.race([server.failed, timeout(START_FAILURE_MS)])) !== undefined;
}

interface Observers {
  readonly observer: RequestObserver | undefined;
  readonly requestLog: RequestLog | undefined;
  readonly metrics: RequestMetrics | undefined;
}

function createObservers({ config, secrets, log }: SidecarOptions, defects: Defects): Observers {
  const { requestLog: mode, metrics: hasMetrics } = config;
  const requestLog = mode === "off" ? undefined : new RequestLog({ mode, log, defects, nowMs });
  const metrics = hasMetrics ? new RequestMetrics({ nowMs, defects, redact: secrets.redact }) : undefined;
  return { observer: observeAll([requestLog, metrics].filter((each) => each !== undefined)), requestLog, metrics };
}

interface Addresses {
  readonly address: string;
  readonly adminAddress: string | undefined;
}

/** Adds the option to an error, for the advice of the command line. */
function nameOption(error: Error): never {
  throw Object.assign(error, { option: "--admin-addr" });
}

async function listen(listener: HttpListener, admin: HttpListener | undefined, config: Config): Promise<Addresses> {
  // Clients must not be accepted if the other address is taken.
  const adminAddress = config.adminAddr && (await admin?.listen(config.adminAddr).catch(nameOption));
  return { address: await listener.listen(config), adminAddress };
}

function countCalls(server: McpServer): number {
  const { shared, modern, asking, private: ofClients } = server.status().lanes;
  const loads = [shared, modern, ofClients, ...Object.values(asking)];
  return loads.reduce((sum, { requestsInFlight }) => sum + requestsInFlight, shared.suspended);
}

/** Returns the options of the MCP server. Each group's type names the fields that it reads. */
function serverOptions(
  { config, environment, secrets, version, log, kill }: SidecarOptions,
  memory: MemoryBudget,
  counters: Counters,
  policy: ToolPolicy | undefined,
): Omit<ServerOptions, "observer" | "onSessionEnd"> {
  const { restartBackoffMs: firstPauseMs, restartMaxMs: longestPauseMs, restartLimit } = config;
  return {
    command: { command: config.command, args: config.args, env: serverEnvironment(environment), cwd: config.cwd },
    clientInfo: { name: "claw-mcp-stdio", version },
    readyTimeoutMs: config.readyTimeoutMs,
    restarts: {
      firstPauseMs,
      longestPauseMs,
      restartLimit,
      crashLoop: { exits: config.crashLoopExits, periodMs: config.crashLoopPeriodMs },
    },
    limits: config,
    retry: config.retry,
    replay: config,
    sessions: config,
    hasSeveralPrincipals: config.authTokenFile !== undefined,
    http: config,
    memory,
    policy,
    counters,
    log,
    secrets,
    nowMs,
    kill,
  };
}

function logAddress(
  log: Log,
  address: string,
  adminAddress: string | undefined,
  { host, port, path, adminAddr, authTokens }: Config,
): void {
  if (adminAddress !== undefined) log.info({ address: adminAddress }, "listening for operators");
  log.info({ address, path }, "listening");
  if (authTokens.length > 0) return;
  const message = "no auth token is set: every client that reaches the address may call";
  if (isLoopback(host) && (adminAddr === undefined || isLoopback(adminAddr.host))) log.info({}, message);
  else {
    const remedy = isLoopback(host) ? "--admin-addr 127.0.0.1:PORT" : `--addr 127.0.0.1:${port}`;
    log.warn({ reason: `set ${OPTIONS.authToken.variable}, or, outside a container, use ${remedy}` }, message);
  }
}

/** Reloads the tokens when their file changes. @returns undefined without a file. */
function reloadTokens(
  { config, secrets, log }: SidecarOptions,
  tokens: AuthTokens,
  server: McpServer,
  defects: Defects,
): AuthTokenReload | undefined {
  const { authTokens: texts, authTokenFile } = config;
  if (authTokenFile === undefined) return undefined;
  return new AuthTokenReload({
    tokens,
    texts,
    read: () => rereadAuthTokenFile(authTokenFile),
    onTokens: (newTexts) => secrets.add(newTexts),
    onRevoked: (principal) => {
      const count = server.endAllOf(principal);
      if (count > 0) log.info({ count, reason: "their auth token is no longer valid" }, "sessions ended");
    },
    defects,
    log,
  });
}

async function drainAndStop(listener: HttpListener, server: McpServer, drainTimeoutMs: number): Promise<void> {
  listener.beginDrain();
  const bound = timeout(drainTimeoutMs);
  await Promise.race([server.drain(), bound]);
  const flushed = listener.stopAccepting();
  await Promise.race([flushed, bound]);
  await Promise.all([Promise.race([flushed, timeout(FLUSH_TIMEOUT_MS)]), server.stop()]);
  listener.close();
}

function timeout(timeoutMs: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, timeoutMs).unref());
}
