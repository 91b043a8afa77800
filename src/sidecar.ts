import type { Config, Environment } from "./config/load.ts";
import { OPTIONS, VARIABLE_PREFIX } from "./config/options.ts";
import { describeError } from "./errors.ts";
import { Lane } from "./mux/lane.ts";
import { SessionStore } from "./mux/session-store.ts";
import type { Log } from "./observability/log.ts";
import { createRedactor } from "./observability/redact.ts";
import { RestartPolicy } from "./upstream/restart-policy.ts";
import { Supervisor, type SupervisorFailure } from "./upstream/supervisor.ts";

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
  /** The MCP server could not be started at all. Settles with undefined once the sidecar was stopped. */
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
  const redact = createRedactor({ ...environment, [OPTIONS.authToken.variable]: config.authToken });
  const { restartBackoffMs: firstPauseMs, restartMaxMs: longestPauseMs } = config;
  const supervisor = new Supervisor({
    command: { command: config.command, args: config.args, env: serverEnvironment(environment), cwd: config.cwd },
    limits: { maxLineLength: config.maxLineBytes, stdinGraceMs: STDIN_GRACE_MS, termGraceMs: TERM_GRACE_MS },
    clientInfo: { name: "claw-mcp-stdio", version },
    readyTimeoutMs: config.readyTimeoutMs,
    restartPolicy: new RestartPolicy({ firstPauseMs, longestPauseMs, random: Math.random }),
    log,
    redact,
    nowMs,
  });
  const lane = new Lane({ upstream: supervisor, limits: config, log, nowMs });
  kill.addEventListener("abort", () => supervisor.kill());
  const failed = supervisor.run(lane);
  let isDraining = false;

  // The server starts while the rest is still being loaded: the first answer comes sooner.
  const [{ createApp }, { HttpListener }] = await Promise.all([import("./http/app.ts"), import("./http/listener.ts")]);
  const app = createApp({
    lane,
    sessions: new SessionStore(config.maxSessions),
    authToken: config.authToken,
    maxBodyBytes: config.maxBodyBytes,
    path: config.path,
    status: () => supervisor.status(),
    isDraining: () => isDraining,
    nowMs,
    log,
  });
  const listener = new HttpListener(app);
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
      const flushed = listener.stopAccepting();
      await Promise.race([Promise.all([lane.drain(), flushed]), timeout(config.drainTimeoutMs)]);
      lane.close();
      await Promise.all([Promise.race([flushed, timeout(FLUSH_TIMEOUT_MS)]), supervisor.stop()]);
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
