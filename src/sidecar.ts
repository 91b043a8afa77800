import type { Context } from "./context.ts";
import type { RequestListener } from "node:http";
import { AuthTokenReload, AuthTokens } from "./http/auth-tokens.ts";
import { type Config, type Environment, serverEnvironment } from "./config/load.ts";
import { OPTIONS, POLICY_OPTIONS } from "./config/options.ts";
import { maskArgs, maskCommand, MIN_KEY_LENGTH, rereadSecretFile, TOKENS } from "./config/secret-file.ts";
import type { AppOptions, Apps } from "./http/app.ts";
import { SseConnections } from "./http/event-streams.ts";
import { isLoopback } from "./config/authority.ts";
import type { ServerStatus } from "./http/health.ts";
import type { HttpListener } from "./http/listener.ts";
import { createReadState, PageFiles, PageStreams } from "./http/page-server.ts";
import { RecentActivity, type RecentLog } from "./http/recent.ts";
import { RequestLog } from "./http/request-log.ts";
import { type Identify, type NamedRoute, sendDefect } from "./http/response.ts";
import { createUnreadOutput, type OutputOptions } from "./http/unread-output.ts";
import { MemoryBudget } from "./memory.ts";
import { Counters } from "./observe/counters.ts";
import { Defects, type Log } from "./observe/log.ts";
import { RequestMetrics } from "./observe/metrics.ts";
import { observeAll, type RequestObserver } from "./observe/record.ts";
import type { Secrets } from "./observe/redact.ts";
import type { Descriptor } from "./policy/descriptor.ts";
import type { ToolPolicy } from "./policy/tool-policy.ts";
import { startProcess, type StartProcess } from "./process/child.ts";
import { McpServer, type ServerOptions } from "./server.ts";
import { keyName } from "./session/ids.ts";

interface Addresses {
  readonly address: string;
  /** Undefined if operators use the same address. */
  readonly adminAddress: string | undefined;
}

/** The listeners of the sidecar: the main one, and that of ADMIN_ADDR. */
class SidecarListeners {
  readonly main: HttpListener;
  readonly admin: HttpListener | undefined;
  readonly #config: Config;
  readonly #defects: Pick<Defects, "guard">;
  /** The requests that have arrived while the handlers are loaded. */
  readonly #early: (() => void)[] = [];
  #apps: Apps | undefined;

  constructor(create: (app: RequestListener) => HttpListener, config: Config, defects: Pick<Defects, "guard">) {
    const handlerOf =
      (name: keyof Apps): RequestListener =>
      (request, response) => {
        if (this.#apps !== undefined) return this.#apps[name]?.(request, response);
        const handle = (): void => this.#apps?.[name]?.(request, response);
        this.#early.push(() => this.#defects.guard("http request", handle, () => sendDefect(response, false)));
      };
    this.main = create(handlerOf("main"));
    this.admin = config.adminAddr && create(handlerOf("admin"));
    [this.#config, this.#defects] = [config, defects];
  }

  /** Sets the handlers of all requests. */
  serve(apps: Apps): void {
    this.#apps = apps;
    for (const handle of this.#early.splice(0)) handle();
  }

  /** @throws the system's error, for example EADDRINUSE. Nothing listens then. */
  async listen(): Promise<Addresses> {
    try {
      // Clients must not be accepted if the other address is taken.
      const { adminAddr } = this.#config;
      const adminAddress = adminAddr && (await this.admin?.listen(adminAddr).catch(nameOption));
      return { address: await this.main.listen(this.#config), adminAddress };
    } catch (error) {
      this.admin?.close();
      throw error;
    }
  }

  log({ address, adminAddress }: Addresses, log: Log): void {
    const { host, port, path, adminAddr, authTokens } = this.#config;
    if (adminAddress !== undefined) log.info({ address: adminAddress }, "listening for operators");
    log.info({ address, path }, "listening");
    logSessionKeys(this.#config, log);
    if (authTokens.length > 0) return;
    const message = "no auth token is set: every client that reaches the address may call";
    if (isLoopback(host) && (adminAddr === undefined || isLoopback(adminAddr.host))) log.info({}, message);
    else {
      const remedy = isLoopback(host) ? "--admin-addr 127.0.0.1:PORT" : `--addr 127.0.0.1:${port}`;
      log.warn({ reason: `set ${OPTIONS.authToken.variable}, or, outside a container, use ${remedy}` }, message);
    }
  }
}

/** Logs the names of the keys, or the cost of random ones. */
function logSessionKeys({ sessionKeys, serverName, authTokens }: Config, log: Log): void {
  if (sessionKeys.length > 0) {
    const keys = sessionKeys.map((key) => keyName(key, serverName));
    return log.info({ count: keys.length, keys }, "session keys loaded");
  }
  const shortCount = authTokens.filter((text) => text.length < MIN_KEY_LENGTH).length;
  if (authTokens.length > 0 && shortCount === 0) return;
  const reason = `set ${OPTIONS.sessionKey.variable}, so that clients go on after a restart, and at any replica`;
  const short = shortCount === 0 ? "" : `; tokens of fewer than ${MIN_KEY_LENGTH} characters: ${shortCount}`;
  log.info({ reason: reason + short }, "session keys are random: sessions end with the sidecar");
}

/** Adds the option to an error, for the advice of the command line. */
function nameOption(error: Error): never {
  throw Object.assign(error, { option: "--admin-addr" });
}

interface ObserversOptions {
  readonly config: Pick<Config, "requestLog" | "metrics">;
  readonly secrets: Pick<Secrets, "redact">;
  readonly log: Log;
  /** The lines for the page; undefined without one. */
  readonly recentLog: RecentLog | undefined;
  readonly defects: Defects;
}

/** The observers of requests; each is undefined if its option is off. */
interface Observers {
  /** All of them together. */
  readonly observer: RequestObserver | undefined;
  readonly requestLog: RequestLog | undefined;
  readonly metrics: RequestMetrics | undefined;
  /** The history for the page. */
  readonly activity: RecentActivity | undefined;
}

function createObservers({ config, secrets, log, recentLog, defects }: ObserversOptions): Observers {
  const { requestLog: mode, metrics: hasMetrics } = config;
  const requestLog = mode === "off" ? undefined : new RequestLog({ mode, log, defects, nowMs });
  const metrics = hasMetrics ? new RequestMetrics({ nowMs, defects, redact: secrets.redact }) : undefined;
  const activity = recentLog && new RecentActivity(recentLog, nowMs);
  const observer = observeAll([requestLog, metrics, activity].filter((each) => each !== undefined));
  return { observer, requestLog, metrics, activity };
}

interface SidecarPageOptions extends OutputOptions {
  readonly config: Pick<Config, "command" | "args" | "path" | "adminAddr" | "isolation" | "keepAliveMs">;
  readonly secrets: Pick<Secrets, "replacer">;
  readonly version: string;
  readonly activity: RecentActivity;
  readonly status: () => ServerStatus;
}

/** The page of the sidecar. */
interface SidecarPage {
  readonly routes: readonly NamedRoute[];
  readonly streams: PageStreams;
}

function createPage({ config, secrets: { replacer }, version, activity, status, ...output }: SidecarPageOptions): SidecarPage {
  const { command, args, path, adminAddr, isolation, keepAliveMs } = config;
  const { memory, defects } = output;
  const endpointPath = adminAddr === undefined ? path : null;
  const readState = createReadState({
    version,
    command: [maskCommand(command), ...maskArgs(args)],
    endpointPath,
    isIsolated: isolation === "session",
    isolatesQuestions: isolation === "auto",
    status,
    memory,
    nowMs,
  });
  const connections = new SseConnections(keepAliveMs, createUnreadOutput(output), defects);
  const files = new PageFiles(defects, endpointPath);
  const streams = new PageStreams({ activity, readState, connections, memory, replacer, defects });
  return {
    routes: [
      ["page", files.indexRoute],
      ["pageEvents", streams.route],
      ["pageFile", files.fileRoute],
    ],
    streams,
  };
}

/** Creates the tool policy if an option sets a rule. Its modules are loaded only then: most sidecars run without them. */
async function loadPolicy(context: Context, descriptor: Descriptor | undefined): Promise<ToolPolicy | undefined> {
  if (!hasRules(context.config)) return undefined;
  const { ToolPolicy } = await import("./policy/tool-policy.ts");
  const policy = new ToolPolicy(context, descriptor);
  policy.start();
  return policy;
}

/** True if any policy option is on. `descriptorMode` does not count: it has no effect without a descriptor. */
function hasRules(config: Config): boolean {
  const keys = (Object.keys(POLICY_OPTIONS) as (keyof typeof POLICY_OPTIONS)[]).filter((key) => key !== "descriptorMode");
  return keys.some((key) => config[key] !== undefined && config[key] !== false && config[key] !== "off");
}

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
  const drain = new AbortController();
  const draining = AbortSignal.any([drain.signal, kill]);
  const context: Context = { config, log, counters, defects, memory, secrets, nowMs, draining, kill };
  const { observer, requestLog, metrics, activity } = createObservers({ ...options, defects });
  const onSessionEnd = metrics?.sessionEnded;
  const policy = await loadPolicy(context, descriptor);
  const tokens = new AuthTokens(config.authTokens, config.serverName);
  const identify: Identify | undefined = config.authTokens.length === 0 ? undefined : (authorization) => tokens.identify(authorization);
  const { HttpListener } = await import("./http/listener.ts");
  const listenerOptions = { limits: config, observer, identify, counters, defects, log, nowMs };
  const listeners = new SidecarListeners((app) => new HttpListener(app, listenerOptions), config, defects);
  const addresses = await listeners.listen();
  kill.throwIfAborted();
  const [server, { createApps }] = await Promise.all([
    McpServer.start(context, { ...processOf(options), policy, observer, onSessionEnd, observeLane: activity?.observeLane }),
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
      drain.abort();
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

function processOf({
  config,
  environment,
  version,
  startProcess: start = startProcess,
}: SidecarOptions): Pick<ServerOptions, "program" | "clientInfo"> {
  const { command, args, cwd } = config;
  return {
    program: { command: { command, args, env: serverEnvironment(environment), cwd }, start },
    clientInfo: { name: "claw-mcp-stdio", version },
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
