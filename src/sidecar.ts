import { setTimeout as delay } from "node:timers/promises";
import { type Context, createContext } from "./context.ts";
import { AuthTokens, watchTokenFile } from "./http/auth-tokens.ts";
import { type Config, type Environment, serverEnvironment } from "./config/load.ts";
import { OPTION_GROUPS, OPTIONS } from "./config/options.ts";
import { MIN_KEY_LENGTH } from "./config/secret-file.ts";
import { isLoopback } from "./config/authority.ts";
import { createStatus, createStatusRoute } from "./http/health.ts";
import { HttpListener } from "./http/listener.ts";
import { createMetricsRoute } from "./http/metrics.ts";
import type { Page } from "./http/page-server.ts";
import { RecentActivity, type RecentLog } from "./http/recent.ts";
import { RequestLog } from "./http/request-log.ts";
import type { Log } from "./observe/log.ts";
import type { Secrets } from "./observe/redact.ts";
import type { Descriptor } from "./policy/descriptor.ts";
import type { ToolPolicy } from "./policy/tool-policy.ts";
import type { startProcess } from "./process/child.ts";
import { ServerProgram } from "./process/generation.ts";
import { McpServer } from "./server.ts";
import { keyName } from "./session/ids.ts";
import type { Principal } from "./session/session.ts";

/** Operators are told who may call. */
function logAddresses(context: Context, address: string, adminAddress: string | undefined): void {
  const { config, log } = context;
  const { host, port, path, adminAddr, authTokens } = config;
  if (adminAddress !== undefined) log.info({ address: adminAddress }, "listening for operators");
  log.info({ address, path }, "listening");
  logSessionKeys(context);
  if (authTokens.length > 0) return;
  const message = "no auth token is set: every client that reaches the address may call";
  if (isLoopback(host) && (adminAddr === undefined || isLoopback(adminAddr.host))) log.info({}, message);
  else {
    const remedy = isLoopback(host) ? "--admin-addr 127.0.0.1:PORT" : `--addr 127.0.0.1:${port}`;
    log.warn({ reason: `set ${OPTIONS.authToken.variable}, or, outside a container, use ${remedy}` }, message);
  }
}

function logSessionKeys({ config, log }: Context): void {
  const { sessionKeys, serverName, authTokens } = config;
  const keys = sessionKeys.map((key) => keyName(key, serverName));
  if (keys.length > 0) return log.info({ count: keys.length, keys }, "session keys loaded");
  const shortCount = authTokens.filter((text) => text.length < MIN_KEY_LENGTH).length;
  if (authTokens.length > 0 && shortCount === 0) return;
  const reason = `set ${OPTIONS.sessionKeyFile.variable}, so that clients go on after a restart, and at any replica`;
  const short = shortCount === 0 ? "" : `; tokens of fewer than ${MIN_KEY_LENGTH} characters: ${shortCount}`;
  log.info({ reason: reason + short }, "session keys are random: sessions end with the sidecar");
}

/** Its modules are loaded only if an option sets a rule. */
async function loadPolicy(context: Context, descriptor: Descriptor | undefined): Promise<ToolPolicy | undefined> {
  const { config } = context;
  // A mode has no effect without a descriptor.
  const { descriptorMode: _, ...rules } = OPTION_GROUPS["Tool policy"];
  const keys = Object.keys(rules) as (keyof typeof rules)[];
  if (keys.every((key) => config[key] === undefined || config[key] === false || config[key] === "off")) return undefined;
  const { ToolPolicy } = await import("./policy/tool-policy.ts");
  return new ToolPolicy(context, descriptor);
}

/** For the responses that are sent at the end of the drain. */
const FLUSH_TIMEOUT_MS = 1000;

export interface SidecarOptions {
  readonly config: Config;
  readonly environment: Environment;
  readonly descriptor: Descriptor | undefined;
  readonly secrets: Secrets;
  readonly version: string;
  readonly log: Log;
  /** For the page; undefined without one. */
  readonly recentLog: RecentLog | undefined;
  readonly kill: AbortSignal;
  /** Undefined for a real process. */
  readonly startProcess?: typeof startProcess | undefined;
}

export type Sidecar = Awaited<ReturnType<typeof startSidecar>>;

/** The listener comes first: with a taken address, no process is started. @throws the system's error if the listener fails. */
export async function startSidecar(options: SidecarOptions) {
  const { config, environment, descriptor, secrets, version, log, recentLog, kill } = options;
  const drain = new AbortController();
  const context = createContext(config, log, secrets, drain.signal, kill);
  const requestLog = config.requestLog === "off" ? undefined : new RequestLog(context);
  const activity = recentLog && new RecentActivity(context, recentLog);
  const policy = await loadPolicy(context, descriptor);
  const tokens = config.authTokens.length === 0 ? undefined : new AuthTokens(config.authTokens, config.serverName);
  const listener = new HttpListener(context, tokens);
  const admin = config.adminAddr && new HttpListener(context, tokens);
  const [address, adminAddress] = await listen(config, listener, admin);
  kill.throwIfAborted();
  const command = { command: config.command, args: config.args, env: serverEnvironment(environment), cwd: config.cwd };
  const program = new ServerProgram(context, command, options.startProcess);
  const clientInfo = { name: "claw-mcp-stdio", version };
  const server = new McpServer(context, program, clientInfo, policy, activity);
  // Loaded while the process starts.
  const [{ createApp }, pageModule] = await Promise.all([import("./http/app.ts"), activity && import("./http/page-server.ts")]);
  const status = createStatus(context, version, () => server.status());
  const page = pageModule && activity && new pageModule.Page(context, activity, status);
  const metricsRoute = config.metrics && { metrics: createMetricsRoute(context, status) };
  const operatorRoutes = { status: createStatusRoute(context, status), ...metricsRoute, ...page?.routes };
  listener.serve(createApp(context, tokens, status, admin === undefined ? { ...operatorRoutes, ...server.routes } : server.routes));
  admin?.serve(createApp(context, tokens, status, operatorRoutes));
  logAddresses(context, address, adminAddress);
  const onRevoked = (principal: Principal): void => {
    const count = server.endAllOf(principal);
    page?.endAllOf(principal);
    for (const each of [listener, admin]) each?.connections.onRevoked(principal);
    if (count > 0) log.info({ count, reason: "their auth token is no longer valid" }, "sessions ended");
  };
  if (tokens !== undefined && config.authTokenFile !== undefined) void watchTokenFile(context, tokens, config.authTokenFile, onRevoked);
  return {
    /** As `host:port`. */
    address,
    pageAddress: page && (adminAddress ?? address),
    firstReady: server.firstReady,
    failed: server.failed,
    toolNames: (timeoutMs: number) => server.toolNames(timeoutMs),
    countCallsInFlight: () => countCalls(server),
    leave: () => leave(listener, server, config.preStopMs),
    /** Bounded by DRAIN_TIMEOUT_MS and the waits of the termination. */
    async stop(): Promise<void> {
      listener.closeAfterResponses();
      drain.abort();
      await drainAndStop(listener, server, page, config.drainTimeoutMs);
      // Operators can watch the drain.
      admin?.close();
      requestLog?.close();
    },
  };
}

/** Nothing listens after an error. @throws the system's error. */
async function listen(
  config: Config,
  listener: HttpListener,
  admin: HttpListener | undefined,
): Promise<[address: string, adminAddress: string | undefined]> {
  try {
    // Clients must not be accepted if the other address is taken.
    const adminAddress = config.adminAddr && (await admin?.listen(config.adminAddr).catch(nameOption));
    return [await listener.listen(config), adminAddress];
  } catch (error) {
    admin?.close();
    throw error;
  }
}

function nameOption(error: Error): never {
  throw Object.assign(error, { option: "--admin-addr" });
}

function countCalls(server: McpServer): number {
  const { shared, modern, asking, private: ofClients } = server.status().lanes;
  const loads = [shared, modern, ofClients, ...Object.values(asking)];
  return loads.reduce((sum, { requestsInFlight }) => sum + requestsInFlight, shared.suspended);
}

/** Each connection closes after its response. Resolves after PRE_STOP_MS; until then, all requests are served. */
async function leave(listener: HttpListener, server: McpServer, preStopMs: number): Promise<void> {
  if (preStopMs === 0) return;
  server.leave();
  listener.closeAfterResponses();
  await delay(preStopMs, undefined, { ref: false });
}

async function drainAndStop(listener: HttpListener, server: McpServer, page: Page | undefined, drainTimeoutMs: number): Promise<void> {
  const bound = delay(drainTimeoutMs, undefined, { ref: false });
  await Promise.race([server.drain(), bound]);
  page?.close();
  const flushed = listener.stopAccepting();
  await Promise.race([flushed, bound]);
  await Promise.all([Promise.race([flushed, delay(FLUSH_TIMEOUT_MS, undefined, { ref: false })]), server.stop()]);
  listener.close();
}
