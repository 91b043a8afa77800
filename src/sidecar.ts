import type { Config, Environment } from "./config/load.ts";
import { VARIABLE_PREFIX } from "./config/option.ts";
import { OPTIONS } from "./config/options.ts";
import { Counters } from "./counters.ts";
import { describeError } from "./errors.ts";
import { EventLog } from "./mux/event-log.ts";
import { Lane } from "./mux/lane.ts";
import { Lanes } from "./mux/lanes.ts";
import type { Session } from "./mux/session.ts";
import { SessionStore } from "./mux/session-store.ts";
import { SharedRules } from "./mux/shared-rules.ts";
import { type Log, withFields } from "./observability/log.ts";
import { createRedactor } from "./observability/redact.ts";
import { createPrivateLane } from "./private-lane.ts";
import { INITIALIZED_NOTIFICATION, initializeRequest } from "./upstream/handshake.ts";
import { RestartPolicy } from "./upstream/restart-policy.ts";
import type { SupervisorFailure } from "./upstream/status.ts";
import { Supervisor, type SupervisorOptions } from "./upstream/supervisor.ts";

/** What the MCP server gets between closing its stdin, SIGTERM and SIGKILL. */
const STDIN_GRACE_MS = 1000;
const TERM_GRACE_MS = 2000;
/** How long the answers that are only given at the end of the drain may take to be read. */
const FLUSH_TIMEOUT_MS = 1000;

export interface SidecarOptions {
  readonly config: Config;
  readonly environment: Environment;
  readonly version: string;
  readonly log: Log;
  /** Ends all processes at once, at any time from the start. */
  readonly kill: AbortSignal;
}

export interface Sidecar {
  /** The MCP server could not be started at all, or was started too often. Settles with undefined once the sidecar was stopped. */
  readonly failed: Promise<SupervisorFailure | undefined>;
  /** Drain, then end the MCP server: bounded by DRAIN_TIMEOUT_MS and the graces above. */
  stop(): Promise<void>;
}

function nowMs(): number {
  return performance.now();
}

/**
 * The composition root: builds the parts, joins them, starts them.
 *
 * @throws the system's error when the address cannot be listened on; nothing is left running then.
 */
export async function startSidecar({ config, environment, version, log, kill }: SidecarOptions): Promise<Sidecar> {
  const counters = new Counters();
  const redact = createRedactor({ ...environment, [OPTIONS.authToken.variable]: config.authToken });
  const { restartBackoffMs: firstPauseMs, restartMaxMs: longestPauseMs, restartLimit } = config;
  const crashLoop = { exits: config.crashLoopExits, periodMs: config.crashLoopPeriodMs };
  const supervisorOptions = (handshake: SupervisorOptions["handshake"], laneLog: Log): SupervisorOptions => ({
    command: { command: config.command, args: config.args, env: serverEnvironment(environment), cwd: config.cwd },
    limits: { maxLineLength: config.maxLineBytes, stdinGraceMs: STDIN_GRACE_MS, termGraceMs: TERM_GRACE_MS },
    handshake,
    readyTimeoutMs: config.readyTimeoutMs,
    restartPolicy: new RestartPolicy({ firstPauseMs, longestPauseMs, crashLoop, restartLimit, random: Math.random }),
    counters,
    log: laneLog,
    redact,
    nowMs,
  });
  const ownHandshake = {
    request: initializeRequest({ name: "claw-mcp-stdio", version }),
    initializedNotification: () => INITIALIZED_NOTIFICATION,
  };
  const supervisor = new Supervisor(supervisorOptions(ownHandshake, log));
  const sessions = new SessionStore(config.maxSessions);
  const endSession = (session: Session): void => sessions.end(session);
  const shared = new Lane({
    limits: config,
    retry: config.retry,
    counters,
    log,
    nowMs,
    endSession,
    upstream: supervisor,
    rules: (access) => new SharedRules(access, config.holdTimeoutMs),
  });
  const failed = supervisor.run(shared);
  const eventLog = new EventLog(config, nowMs);
  let privateLanes = 0;
  const lanes = new Lanes({
    shared,
    createPrivate: (initialize, streams, onSessionEnd) => {
      const laneLog = withFields(log, { lane: `private-${++privateLanes}` });
      const laneOptions = { limits: config, retry: config.retry, counters, log: laneLog, nowMs, endSession };
      return createPrivateLane({ supervisorOptions, laneOptions, initialize, streams, onSessionEnd });
    },
    sessions,
    eventLog,
    isolation: config.isolation,
    maxPrivateServers: config.maxPrivateServers,
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

  // The server starts while the rest is still being loaded: the first answer comes sooner.
  const [{ createApp }, { LegacySsePairs }, { HttpListener }, { SseConnections }] = await Promise.all([
    import("./http/app.ts"),
    import("./http/legacy-sse-pairs.ts"),
    import("./http/listener.ts"),
    import("./http/sse-connection.ts"),
  ]);
  const connections = new SseConnections(config.keepAliveMs);
  const { maxSessions, requestTimeoutMs } = config;
  const legacySse =
    config.legacySse === "on" ? new LegacySsePairs({ connections, sessions, maxSessions, requestTimeoutMs, nowMs }) : undefined;
  const app = createApp({
    lanes,
    sessions,
    connections,
    legacySse,
    authToken: config.authToken,
    allowedOrigins: config.allowedOrigins,
    allowedHosts: config.allowedHosts,
    listenHost: config.host,
    maxBodyBytes: config.maxBodyBytes,
    path: config.path,
    status: () => supervisor.status(),
    isDraining: () => isDraining,
    version,
    counters,
    nowMs,
    log,
  });
  const { headersTimeoutMs, bodyTimeoutMs, readerTimeoutMs } = config;
  const listener = new HttpListener(app, { headersTimeoutMs, bodyTimeoutMs, readerTimeoutMs, counters, log, nowMs });
  try {
    const address = await listener.listen(config);
    log.info({ address, path: config.path }, "listening");
  } catch (error) {
    await supervisor.stop();
    throw error;
  }
  if (config.authToken === undefined) log.info({}, "no auth token is set: every client that reaches the address may call");

  return {
    failed,
    async stop() {
      isDraining = true;
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

/** The environment of the container, without the sidecar's own variables: its token is not the server's business. */
function serverEnvironment(environment: Environment): Record<string, string> {
  const own: Record<string, string> = {};
  for (const [name, value] of Object.entries(environment)) {
    if (value !== undefined && !name.startsWith(VARIABLE_PREFIX)) own[name] = value;
  }
  return own;
}

function timeout(timeoutMs: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, timeoutMs).unref());
}
