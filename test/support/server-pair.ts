import { startInProcess } from "./in-process-server.ts";
import { createApps } from "../../src/http/app.ts";
import { HttpListener } from "../../src/http/listener.ts";
import { Counters } from "../../src/observability/counters.ts";
import { Defects } from "../../src/observability/defects.ts";
import { Secrets } from "../../src/observability/redact.ts";
import { type McpServer, type ServerOptions, startServer } from "../../src/server.ts";
import { type ClientOptions, McpClient } from "./mcp-client.ts";
import { groupEnd } from "./process-end.ts";
import { RecordedLog } from "./recorded-log.ts";
import { MemoryBudget } from "../../src/memory/memory-budget.ts";
import { ReadyTimeout } from "../../src/upstream/supervisor.ts";

/** Only a hang reaches it. */
const LONG_MS = 60_000;
const LIMITS = {
  requestTimeoutMs: LONG_MS,
  holdTimeoutMs: LONG_MS,
  streamAfterMs: LONG_MS,
  maxHeldRequests: 100,
  maxInFlight: 100,
  maxSessionRequests: 100,
  maxQueuedBytes: 1_000_000,
  maxLineBytes: 1_000_000,
  pingIntervalMs: undefined,
  hungTimeouts: 100,
};

const nowMs = (): number => performance.now();

/** One of two servers in this process: a real MCP server, its log and its counters. */
export class PairedServer {
  readonly server: McpServer;
  readonly url: string;
  readonly log: RecordedLog;

  constructor(server: McpServer, url: string, log: RecordedLog) {
    this.server = server;
    this.url = url;
    this.log = log;
  }

  /** Opens a client with a session. */
  client(options: ClientOptions = {}): Promise<McpClient> {
    return new McpClient(this.url, options).open();
  }

  /** The counters in the form of `/status`. */
  get counts(): unknown {
    return this.server.status().counters.toJSON();
  }

  /** The processes that were started, the last one at the end. */
  get childPids(): number[] {
    return this.log.lines.filter(({ message }) => message === "mcp server started").map(({ fields }) => Number(fields["childPid"]));
  }
}

/** Two servers on two paths of one listener, in this process. */
export class ServerPair implements AsyncDisposable {
  readonly first: PairedServer;
  readonly second: PairedServer;
  readonly #listener: HttpListener;

  constructor(first: PairedServer, second: PairedServer, listener: HttpListener) {
    this.first = first;
    this.second = second;
    this.#listener = listener;
  }

  /** Starts two servers with these programs of Node and their arguments, and waits until both are ready. */
  static async start(firstArgs: readonly string[], secondArgs: readonly string[]): Promise<ServerPair> {
    const logs = [new RecordedLog(), new RecordedLog()] as const;
    const servers = await Promise.all([startServer(serverOptions(firstArgs, logs[0])), startServer(serverOptions(secondArgs, logs[1]))]);
    const [first, second] = servers;
    const counters = new Counters();
    const defects = new Defects(logs[0], counters);
    const apps = [appOf(first, "/first", defects), appOf(second, "/second", defects)] as const;
    const listener = new HttpListener((request, response) => apps[request.url?.startsWith("/second") === true ? 1 : 0](request, response), {
      limits: {
        headersTimeoutMs: LONG_MS,
        bodyTimeoutMs: LONG_MS,
        readerTimeoutMs: LONG_MS,
        connectionIdleTimeoutMs: LONG_MS,
        maxConnections: 1000,
        maxConnectionsWithoutToken: 1000,
      },
      observer: undefined,
      identify: undefined,
      counters,
      defects,
      log: logs[0],
      nowMs,
    });
    const origin = `http://${await listener.listen({ host: "127.0.0.1", port: 0 })}`;
    await Promise.all(servers.map(({ firstReady }) => firstReady));
    return new ServerPair(
      new PairedServer(first, `${origin}/first`, logs[0]),
      new PairedServer(second, `${origin}/second`, logs[1]),
      listener,
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const servers = [this.first, this.second];
    await Promise.all(servers.map(({ server }) => server.stop()));
    const accepted = this.#listener.stopAccepting();
    this.#listener.close();
    await accepted;
    await Promise.all(servers.flatMap(({ childPids }) => childPids.map(groupEnd)));
  }
}

function serverOptions(args: readonly string[], log: RecordedLog): ServerOptions {
  return {
    command: { command: process.execPath, args, env: { PATH: process.env["PATH"] ?? "" }, cwd: undefined },
    startProcess: startInProcess,
    clientInfo: { name: "test", version: "1" },
    readyTimeout: new ReadyTimeout(LONG_MS),
    restarts: { firstPauseMs: 1, longestPauseMs: 1, crashLoop: { exits: 100, periodMs: LONG_MS }, restartLimit: undefined },
    limits: LIMITS,
    retry: "off",
    replay: { replayMaxBytes: 1_000_000, replayMaxAgeMs: LONG_MS, replayMaxEvents: 100 },
    sessions: {
      isolation: "auto",
      parkTimeoutMs: 300_000,
      maxParkedCalls: 64,
      childEra: "auto",
      modern: "on",
      maxSessions: 100,
      sessionKeys: [],
      serverName: "mcp",
      sessionMaxAgeMs: LONG_MS,
      sessionsPerMinute: undefined,
      maxPrivateServers: 10,
      sessionIdleTimeoutMs: LONG_MS,
    },
    observer: undefined,
    onSessionEnd: undefined,
    observeLane: undefined,
    http: { maxBodyBytes: 1_000_000, keepAliveMs: LONG_MS, legacySse: "off" },
    memory: new MemoryBudget(Number.MAX_SAFE_INTEGER),
    policy: undefined,
    hasSeveralPrincipals: false,
    counters: new Counters(),
    log,
    secrets: new Secrets({}),
    nowMs,
    kill: new AbortController().signal,
  };
}

function appOf(server: McpServer, path: string, defects: Defects): ReturnType<typeof createApps>["main"] {
  return createApps({
    routes: server.routes,
    path,
    identify: undefined,
    allowedOrigins: [],
    allowedHosts: undefined,
    listenHost: "127.0.0.1",
    version: "1",
    status: () => server.status(),
    memory: new MemoryBudget(1),
    replacer: (_key, value) => value,
    requestSamples: undefined,
    page: undefined,
    adminHost: undefined,
    defects,
    nowMs,
  }).main;
}
