import type { JsonObject } from "../../../src/mcp/message.ts";
import { Lanes, type PrivateClient, type SupervisedLane } from "../../../src/server/lanes.ts";
import type { Config } from "../../../src/config/load.ts";
import { EventLog } from "../../../src/session/replay.ts";
import { SessionOpener } from "../../../src/server/session-opener.ts";
import type { MemoryHolder } from "../../../src/memory.ts";
import type { Session } from "../../../src/session/session.ts";
import { SessionIds, SessionKeys } from "../../../src/session/ids.ts";
import { SessionStore } from "../../../src/session/store.ts";
import { PrivateRouting } from "../../../src/server/private-routing.ts";
import { contextOf } from "../../support/context.ts";
import type { RecordedLog } from "../../support/recorded-log.ts";
import { UNGUARDED } from "../../support/defects.ts";
import { LaneBench, requestOfClient } from "./lane-bench.ts";
import { RecordedReply } from "./recorded-reply.ts";
import { AMPLE_MEMORY } from "./memory.ts";

/** A simulated private server that exits when the test calls `end`. */
export class PrivateServer implements SupervisedLane {
  readonly bench: LaneBench;
  /** False while it waits for the end of another server. */
  isStarted: boolean;
  stopCount = 0;
  readonly #ended = Promise.withResolvers<void>();

  constructor(bench: LaneBench, start: Promise<void> | undefined) {
    this.bench = bench;
    this.isStarted = start === undefined;
    void start?.then(() => (this.isStarted = true));
  }

  get lane(): LaneBench["lane"] {
    return this.bench.lane;
  }

  get ended(): Promise<void> {
    return this.#ended.promise;
  }

  stop(): Promise<void> {
    this.stopCount++;
    return this.#ended.promise;
  }

  /** Simulates the exit of the process. */
  async end(): Promise<void> {
    this.#ended.resolve();
    await this.#ended.promise;
    // Code that awaits the exit continues in later microtasks.
    await new Promise((resolve) => process.nextTick(resolve));
  }
}

export interface LanesInput {
  readonly isolation?: Config["isolation"];
  readonly maxPrivateServers?: number;
  readonly maxSessions?: number;
  readonly sessionsPerMinute?: number;
  readonly idleTimeoutMs?: number;
  /** The ids of another replica. */
  readonly ids?: SessionIds;
  readonly isStateless?: () => boolean | undefined;
  /** False: the test starts the shared server. */
  readonly isStarted?: boolean;
}

export interface Client {
  readonly reply: RecordedReply;
  /** Returns undefined until a session is opened. */
  readonly session: () => Session | undefined;
}

export const IDLE_TIMEOUT_MS = 10_000;

/** All lanes, with simulated servers. */
export class LanesBench {
  readonly shared: LaneBench;
  readonly servers: PrivateServer[] = [];
  readonly sessions: SessionStore;
  readonly eventLog = new EventLog(
    contextOf({ replayMaxBytes: 100_000, replayMaxAgeMs: 1_000_000, replayMaxEvents: 100 }, { defects: UNGUARDED }),
  );
  readonly context: ReturnType<typeof contextOf>;
  readonly lanes: Lanes;
  readonly opener: SessionOpener;
  readonly ids: SessionIds;
  readonly #draining = new AbortController();
  readonly #kill = new AbortController();

  constructor({
    isolation = "auto",
    maxPrivateServers = 2,
    maxSessions = 10,
    sessionsPerMinute,
    idleTimeoutMs = IDLE_TIMEOUT_MS,
    ids = new SessionIds(contextOf({ sessionMaxAgeMs: 1_000_000 }), new SessionKeys([], "mcp")),
    isStateless = () => false,
    isStarted = true,
  }: LanesInput = {}) {
    this.ids = ids;
    this.sessions = new SessionStore(contextOf({ maxSessions }));
    const endSession = (session: Session): void => this.sessions.end(session);
    this.shared = LaneBench.shared({}, { endSession });
    const settings = { isolation, maxPrivateServers, sessionsPerMinute, sessionIdleTimeoutMs: idleTimeoutMs };
    const signals = { draining: this.#draining.signal, kill: this.#kill.signal };
    this.context = contextOf(settings, { counters: this.shared.counters, ...signals });
    this.lanes = new Lanes(
      this.context,
      {
        lane: this.shared.lane,
        ended: new Promise(() => undefined),
        stop: () => Promise.resolve(),
      },
      isStateless,
      (_name, _initialize, ...client) => this.#createPrivate(...client),
      this.sessions,
    );
    this.opener = new SessionOpener(this.context, this.lanes, this.sessions, ids, this.eventLog);
    if (isStarted) this.shared.start();
  }

  get log(): RecordedLog {
    return this.context.log;
  }

  /** Begins the drain. */
  drain(): void {
    this.#draining.abort();
  }

  /** Kills all servers. */
  kill(): void {
    this.#kill.abort();
  }

  /** Sends a client's `initialize`, with or without params. */
  connect(params: JsonObject | "none" = { capabilities: { sampling: {} } }, holder: MemoryHolder = "127.0.0.1"): Client {
    const request = requestOfClient({ id: "i", method: "initialize", ...(params === "none" ? {} : { params }) });
    const reply = new RecordedReply(this.context, '"i"', Date.now());
    let session: Session | undefined;
    const open = (opened: Session): void => {
      if (reply.isFinished) throw new Error("the session was opened after the response");
      session = opened;
    };
    this.opener.initialize(reply, request, open, { memory: AMPLE_MEMORY.account(holder) });
    return { reply, session: () => session };
  }

  /** Connects a client, and makes its private server ready. */
  connected(): { readonly session: Session; readonly server: PrivateServer } {
    const client = this.connect();
    const server = this.servers.at(-1);
    server?.bench.start();
    const session = client.session();
    if (server === undefined || session === undefined) throw new Error("there is no session");
    return { session, server };
  }

  #createPrivate(client: PrivateClient, start: Promise<void> | undefined): PrivateServer {
    const bench = new LaneBench(
      (lane) => new PrivateRouting(lane, client, () => undefined),
      {},
      { endSession: (session) => this.sessions.end(session) },
    );
    const server = new PrivateServer(bench, start);
    this.servers.push(server);
    return server;
  }
}
