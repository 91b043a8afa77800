import type { Config, Environment } from "./config/load.ts";
import { isLoopback } from "./http/guards/authority.ts";
import { AuthTokenReload } from "./auth/auth-token-reload.ts";
import { AuthTokens } from "./auth/auth-tokens.ts";
import { rereadAuthTokenFile } from "./config/auth-token-file.ts";
import { OPTIONS } from "./config/options.ts";
import { serverEnvironment } from "./config/environment.ts";
import { Counters } from "./observability/counters.ts";
import type { Descriptor } from "./descriptor/descriptor.ts";
import { Defects } from "./observability/defects.ts";
import { describeError } from "./errors.ts";
import { createLaneEntries } from "./lane-entries.ts";
import { EventLog } from "./sessions/event-log.ts";
import { guardListener } from "./lane/guarded-listener.ts";
import type { LaneOptions } from "./lane/lane.ts";
import { type LaneEntry, Lanes } from "./lane/lanes.ts";
import type { Session } from "./sessions/session.ts";
import { SessionStore } from "./sessions/session-store.ts";
import { SharedRouting } from "./lane/routing/shared-routing.ts";
import { type Log, withFields } from "./observability/log.ts";
import type { Secrets } from "./observability/redact.ts";
import { createPrivateLane } from "./private-lane.ts";
import { STOP_GRACES } from "./upstream/child-process.ts";
import { SidecarHandshake } from "./upstream/handshake.ts";
import type { UpstreamHandshake, UpstreamStatus } from "./upstream/port.ts";
import { RestartPolicy } from "./upstream/restart-policy.ts";
import { Supervisor, type SupervisorFailure, type SupervisorOptions } from "./upstream/supervisor.ts";

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

export interface Sidecar {
  /** The address of the listener, as `host:port`. */
  readonly address: string;
  /** Resolves when the shared MCP server is ready for the first time. */
  readonly firstReady: Promise<UpstreamHandshake>;
  /**
   * Lists the tools of the shared MCP server when it is ready.
   *
   * @returns the names of the visible tools; undefined after a timeout.
   */
  toolNames(timeoutMs: number): Promise<readonly string[] | undefined>;
  /** Resolves when the MCP server cannot be started or has reached the restart limit, or to undefined when the sidecar is stopped. */
  readonly failed: Promise<SupervisorFailure | undefined>;
  /** Drains, then terminates the MCP server. Bounded by DRAIN_TIMEOUT_MS and the waits of the termination. */
  stop(): Promise<void>;
}

function nowMs(): number {
  return performance.now();
}

/**
 * Creates, connects and starts the parts of the sidecar.
 *
 * @throws the system's error if the listener fails; no process is left running then.
 */
export async function startSidecar({ config, environment, descriptor, secrets, version, log, kill }: SidecarOptions): Promise<Sidecar> {
  const counters = new Counters();
  const defects = new Defects(log, counters);
  const laneEntries = await createLaneEntries({ config, descriptor, counters, log, redact: secrets.redact, nowMs });
  kill.throwIfAborted();
  const { restartBackoffMs: firstPauseMs, restartMaxMs: longestPauseMs, restartLimit } = config;
  const crashLoop = { exits: config.crashLoopExits, periodMs: config.crashLoopPeriodMs };
  const supervisorOptions = (handshake: SupervisorOptions["handshake"], laneLog: Log): SupervisorOptions => ({
    command: { command: config.command, args: config.args, env: serverEnvironment(environment), cwd: config.cwd },
    limits: { maxLineBytes: config.maxLineBytes, ...STOP_GRACES },
    handshake,
    readyTimeoutMs: config.readyTimeoutMs,
    restartPolicy: new RestartPolicy({ firstPauseMs, longestPauseMs, crashLoop, restartLimit, random: Math.random }),
    counters,
    log: laneLog,
    secrets,
    nowMs,
  });
  const supervisor = new Supervisor(supervisorOptions(new SidecarHandshake({ name: "claw-mcp-stdio", version }), log));
  const sessions = new SessionStore(config.maxSessions);
  const endSession = (session: Session): void => sessions.end(session);
  const shared = laneEntries.create({
    limits: config,
    retry: config.retry,
    counters,
    log,
    nowMs,
    endSession,
    upstream: supervisor,
    createRouting: (access) => new SharedRouting(access),
  });
  const failed = supervisor.run(guardListener(shared.lane, supervisor, defects));
  const eventLog = new EventLog(config, nowMs, defects);
  let privateLanes = 0;
  const lanes = new Lanes({
    shared,
    createPrivate: (initialize, streams, onSessionEnd) => {
      const lane = `private-${++privateLanes}`;
      const laneLog = withFields(log, { lane });
      const createLane = (options: Omit<LaneOptions, "toolWatcher">): LaneEntry => laneEntries.create(options, lane);
      const laneOptions = { limits: config, retry: config.retry, counters, log: laneLog, nowMs, endSession };
      return createPrivateLane({ supervisorOptions, laneOptions, createLane, initialize, streams, onSessionEnd });
    },
    sessions,
    eventLog,
    isolation: config.isolation,
    maxPrivateServers: config.maxPrivateServers,
    sessionsPerMinute: config.sessionsPerMinute,
    idleTimeoutMs: config.sessionIdleTimeoutMs,
    counters,
    log,
    nowMs,
  });
  kill.addEventListener("abort", () => {
    supervisor.kill();
    lanes.kill();
  });
  let isDraining = false;
  const status = (): UpstreamStatus => {
    const current = supervisor.status();
    // Requests would wait until the tools are listed, but the discovery client of a pod has only 5 s for its list.
    return current.state === "ready" && shared.lane.tools.areAwaited ? { ...current, state: "starting" } : current;
  };

  // The server already starts while the other modules are loaded, so that the first response is earlier.
  const [{ createApp }, { LegacySsePairs }, { HttpListener }, { SseConnections }] = await Promise.all([
    import("./http/app.ts"),
    import("./http/legacy-sse/legacy-sse-pairs.ts"),
    import("./http/listener.ts"),
    import("./http/sse-connection.ts"),
  ]);
  const connections = new SseConnections(config.keepAliveMs, defects);
  const { maxSessions, requestTimeoutMs } = config;
  const legacySse =
    config.legacySse === "on" ? new LegacySsePairs({ connections, sessions, maxSessions, requestTimeoutMs, defects, nowMs }) : undefined;
  const { authTokens: texts, authTokenFile } = config;
  const tokens = new AuthTokens(texts);
  const app = createApp({
    lanes,
    sessions,
    connections,
    legacySse,
    identify: texts.length === 0 ? undefined : (authorization) => tokens.identify(authorization),
    replacer: secrets.replacer,
    allowedOrigins: config.allowedOrigins,
    allowedHosts: config.allowedHosts,
    listenHost: config.host,
    maxBodyBytes: config.maxBodyBytes,
    path: config.path,
    status,
    isDraining: () => isDraining,
    version,
    counters,
    policy: laneEntries.status,
    defects,
    nowMs,
  });
  const { headersTimeoutMs, bodyTimeoutMs, readerTimeoutMs } = config;
  const { pid, lastExit } = supervisor.status();
  const isMissing = pid === undefined && lastExit === undefined;
  const failure = isMissing ? await Promise.race([failed, timeout(START_FAILURE_MS)]) : undefined;
  const listener = new HttpListener(app, { headersTimeoutMs, bodyTimeoutMs, readerTimeoutMs, counters, defects, log, nowMs });
  let address: string;
  try {
    address = await listener.listen(config);
  } catch (error) {
    await supervisor.stop();
    throw error;
  }
  // A sidecar whose command cannot be started ends at once, and does not announce its address.
  if (failure === undefined) logAddress(log, address, config);
  const tokenReload =
    authTokenFile === undefined
      ? undefined
      : new AuthTokenReload({
          tokens,
          texts,
          read: () => rereadAuthTokenFile(authTokenFile),
          onTokens: (newTexts) => secrets.add(newTexts),
          onRevoked: (principal) => {
            const count = sessions.endAllOf(principal);
            legacySse?.endAllOf(principal);
            if (count > 0) log.info({ count, reason: "their auth token is no longer valid" }, "sessions ended");
          },
          defects,
          log,
        });

  return {
    address,
    firstReady: supervisor.firstReady,
    failed,
    async toolNames(timeoutMs) {
      const tools = await shared.lane.tools.list(timeoutMs);
      if (tools === undefined) return undefined;
      const names = shared.visibleNames?.(tools) ?? tools.map(({ name }) => name);
      return [...names].filter((name) => typeof name === "string");
    },
    async stop() {
      isDraining = true;
      tokenReload?.close();
      listener.beginDrain();
      legacySse?.drain();
      const bound = timeout(config.drainTimeoutMs);
      await Promise.race([lanes.drain(), bound]);
      const flushed = listener.stopAccepting();
      await Promise.race([flushed, bound]);
      lanes.close();
      eventLog.close();
      await Promise.all([Promise.race([flushed, timeout(FLUSH_TIMEOUT_MS)]), supervisor.stop(), lanes.stopPrivate()]);
      listener.close();
      await failed.catch((error: unknown) => log.error({ err: error, reason: describeError(error) }, "supervision failed"));
    },
  };
}

function logAddress(log: Log, address: string, { host, port, path, authTokens }: Config): void {
  log.info({ address, path }, "listening");
  if (authTokens.length > 0) return;
  const message = "no auth token is set: every client that reaches the address may call";
  if (isLoopback(host)) log.info({}, message);
  else log.warn({ reason: `set ${OPTIONS.authToken.variable}, or, outside a container, use --addr 127.0.0.1:${port}` }, message);
}

function timeout(timeoutMs: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, timeoutMs).unref());
}
