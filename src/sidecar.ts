import type { Config, Environment } from "./config/load.ts";
import type { AppOptions } from "./http/app.ts";
import type { HttpListener } from "./http/listener.ts";
import type { RecentLog } from "./http/page/recent-log.ts";
import type { Identify } from "./http/route.ts";
import type { ServerStatus } from "./http/status-route.ts";
import { AuthTokenReload } from "./auth/auth-token-reload.ts";
import { AuthTokens } from "./auth/auth-tokens.ts";
import { rereadSecretFile, TOKENS } from "./config/secret-file.ts";
import { serverEnvironment } from "./config/environment.ts";
import { Counters } from "./observability/counters.ts";
import type { Descriptor } from "./descriptor/descriptor.ts";
import { Defects } from "./observability/defects.ts";
import { loadPolicy } from "./load-policy.ts";
import type { ToolPolicy } from "./policy/tool-policy.ts";
import { MemoryBudget } from "./memory/memory-budget.ts";
import type { Log } from "./observability/log.ts";
import type { Secrets } from "./observability/redact.ts";
import { type McpServer, type ServerOptions, startServer } from "./server.ts";
import { SidecarListeners } from "./sidecar-listeners.ts";
import { createObservers } from "./sidecar-observers.ts";
import { createPage, type SidecarPage } from "./sidecar-page.ts";
import { startProcess, type StartProcess } from "./upstream/process-group.ts";
import { ReadyTimeout } from "./upstream/supervisor.ts";

/** The longest time until the operating system reports that a command cannot be started. */
const START_FAILURE_MS = 1000;
/** The time to read the responses that are sent at the end of the drain. */
const FLUSH_TIMEOUT_MS = 1000;

type AppSettings = Pick<AppOptions, "path" | "allowedOrigins" | "allowedHosts" | "listenHost" | "adminHost" | "replacer" | "version">;

export interface SidecarOptions {
  readonly config: Config;
  readonly environment: Environment;
  /** The descriptor in DESCRIPTOR; undefined if not set. */
  readonly descriptor: Descriptor | undefined;
  /** The secrets of the environment and the configuration. */
  readonly secrets: Secrets;
  readonly version: string;
  readonly log: Log;
  /** The last lines of the log, for the page; undefined without one. */
  readonly recentLog: RecentLog | undefined;
  /** Kills all processes at once, at any time from the start. */
  readonly kill: AbortSignal;
  /** Starts the MCP server; undefined for a real process. */
  readonly startProcess?: StartProcess | undefined;
}

export interface Sidecar extends Pick<McpServer, "firstReady" | "failed" | "toolNames"> {
  /** The address of the listener, as `host:port`. */
  readonly address: string;
  /** The address of the page; undefined without one. */
  readonly pageAddress: string | undefined;
  /** The number of clients' calls that are not answered. */
  countCallsInFlight(): number;
  /** Makes the sidecar not ready, and closes each connection after its response. Resolves after PRE_STOP_MS; until then, all requests are served. */
  leave(): Promise<void>;
  /** Drains, then terminates the MCP server. Bounded by DRAIN_TIMEOUT_MS and the waits of the termination. */
  stop(): Promise<void>;
}

function nowMs(): number {
  return performance.now();
}

/**
 * Starts the listener and the MCP server, in this order: with a taken address, no process is started.
 *
 * @throws the system's error if the listener fails.
 */
export async function startSidecar(options: SidecarOptions): Promise<Sidecar> {
  const { config, descriptor, secrets, log, kill } = options;
  const counters = new Counters();
  const defects = new Defects(log, counters);
  const memory = new MemoryBudget(config.memoryBudgetBytes);
  const { observer, requestLog, metrics, activity } = createObservers({ ...options, defects, nowMs });
  const onSessionEnd = metrics?.sessionEnded;
  const policy = await loadPolicy({ config, descriptor, counters, log, redact: secrets.redact, nowMs });
  const tokens = new AuthTokens(config.authTokens, config.serverName);
  const identify: Identify | undefined = config.authTokens.length === 0 ? undefined : (authorization) => tokens.identify(authorization);
  const { HttpListener } = await import("./http/listener.ts");
  const listenerOptions = { limits: config, observer, identify, counters, defects, log, nowMs };
  const listeners = new SidecarListeners((app) => new HttpListener(app, listenerOptions), config, defects);
  const addresses = await listeners.listen();
  kill.throwIfAborted();
  const [server, { createApps }] = await Promise.all([
    startServer({ ...serverOptions(options, memory, counters, policy), observer, onSessionEnd, observeLane: activity?.observeLane }),
    import("./http/app.ts"),
  ]);
  const status = (): ServerStatus => server.status();
  const page = activity && createPage({ ...options, activity, status, memory, counters, defects, nowMs });
  const apps = createApps({
    ...appSettings(options),
    page: page?.routes,
    routes: server.routes,
    identify,
    status,
    memory,
    requestSamples: metrics && (() => metrics.samples()),
    defects,
    nowMs,
  });
  listeners.serve(apps);
  const hasFailed = await hasFailedToStart(server);
  // A sidecar whose command cannot be started ends at once, and does not announce its address.
  if (!hasFailed) listeners.log(addresses, log);
  const { address, adminAddress } = addresses;
  const tokenReload = reloadTokens(options, tokens, { server, page, listeners }, defects);
  return {
    address,
    pageAddress: page && (adminAddress ?? address),
    firstReady: server.firstReady,
    failed: server.failed,
    toolNames: (timeoutMs) => server.toolNames(timeoutMs),
    countCallsInFlight: () => countCalls(server),
    leave: () => leave(listeners.main, server, config.preStopMs),
    async stop() {
      tokenReload?.close();
      await drainAndStop(listeners.main, server, page, config.drainTimeoutMs);
      // Operators can watch the drain.
      listeners.admin?.close();
      requestLog?.close();
    },
  };
}

async function hasFailedToStart(server: McpServer): Promise<boolean> {
  const { pid, lastExit } = server.status().upstream;
  if (pid !== undefined || lastExit !== undefined) return false;
  return (await Promise.race([server.failed, timeout(START_FAILURE_MS)])) !== undefined;
}

function countCalls(server: McpServer): number {
  const { shared, modern, asking, private: ofClients } = server.status().lanes;
  const loads = [shared, modern, ofClients, ...Object.values(asking)];
  return loads.reduce((sum, { requestsInFlight }) => sum + requestsInFlight, shared.suspended);
}

function appSettings({ config, secrets: { replacer }, version }: SidecarOptions): AppSettings {
  const { path, allowedOrigins, allowedHosts, host: listenHost, adminAddr: adminHost } = config;
  return { path, allowedOrigins, allowedHosts, listenHost, adminHost, replacer, version };
}

/** Returns the options of the MCP server. Each group's type names the fields that it reads. */
function serverOptions(
  { config, environment, secrets, version, log, kill, startProcess: start = startProcess }: SidecarOptions,
  memory: MemoryBudget,
  counters: Counters,
  policy: ToolPolicy | undefined,
): Omit<ServerOptions, "observer" | "onSessionEnd" | "observeLane"> {
  const { restartBackoffMs: firstPauseMs, restartMaxMs: longestPauseMs, restartLimit } = config;
  return {
    command: { command: config.command, args: config.args, env: serverEnvironment(environment), cwd: config.cwd },
    startProcess: start,
    clientInfo: { name: "claw-mcp-stdio", version },
    readyTimeout: new ReadyTimeout(config.readyTimeoutMs),
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

/** Reloads the tokens when their file changes. @returns undefined without a file. */
function reloadTokens(
  { config, secrets, log }: SidecarOptions,
  tokens: AuthTokens,
  { server, page, listeners }: { readonly server: McpServer; readonly page: SidecarPage | undefined; readonly listeners: SidecarListeners },
  defects: Defects,
): AuthTokenReload | undefined {
  const { authTokens: texts, authTokenFile } = config;
  if (authTokenFile === undefined) return undefined;
  return new AuthTokenReload({
    tokens,
    texts,
    read: () => rereadSecretFile(authTokenFile, TOKENS),
    onTokens: (newTexts) => secrets.add(newTexts),
    onRevoked: (principal) => {
      const count = server.endAllOf(principal);
      page?.streams.endAllOf(principal);
      for (const listener of [listeners.main, listeners.admin]) listener?.onRevoked(principal);
      if (count > 0) log.info({ count, reason: "their auth token is no longer valid" }, "sessions ended");
    },
    defects,
    log,
  });
}

async function leave(listener: HttpListener, server: McpServer, preStopMs: number): Promise<void> {
  if (preStopMs === 0) return;
  server.leave();
  listener.closeAfterResponses();
  await timeout(preStopMs);
}

async function drainAndStop(
  listener: HttpListener,
  server: McpServer,
  page: SidecarPage | undefined,
  drainTimeoutMs: number,
): Promise<void> {
  listener.closeAfterResponses();
  const bound = timeout(drainTimeoutMs);
  await Promise.race([server.drain(), bound]);
  page?.streams.close();
  const flushed = listener.stopAccepting();
  await Promise.race([flushed, bound]);
  await Promise.all([Promise.race([flushed, timeout(FLUSH_TIMEOUT_MS)]), server.stop()]);
  listener.close();
}

function timeout(timeoutMs: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, timeoutMs).unref());
}
