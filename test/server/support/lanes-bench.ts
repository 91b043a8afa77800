import type { JsonObject } from "../../../src/mcp/message.ts";
import { KnownParams } from "../../../src/server/known-params.ts";
import { Pool, PooledServer, type Profile } from "../../../src/server/pool.ts";
import type { Config } from "../../../src/config/load.ts";
import { EventLog } from "../../../src/session/replay.ts";
import { SessionOpener } from "../../../src/server/session-opener.ts";
import { type KnownSession, Session } from "../../../src/session/session.ts";
import type { MemoryHolder } from "../../../src/memory.ts";
import { SessionIds, SessionKeys } from "../../../src/session/ids.ts";
import { SessionStore } from "../../../src/session/store.ts";
import { PrivateSession } from "../../../src/server/private-session.ts";
import { Routing } from "../../../src/server/routing.ts";
import { type RecordedLog, UNGUARDED, contextOf } from "../../support/context.ts";
import { LaneBench, requestOfClient } from "./lane-bench.ts";
import { RecordedReply } from "./recorded-reply.ts";
import { AMPLE_MEMORY } from "./memory.ts";

export class SimulatedServer extends PooledServer {
  readonly bench: LaneBench;
  stopCount = 0;
  readonly #ended: PromiseWithResolvers<undefined>;

  constructor(profile: Profile, name: string, bench: LaneBench) {
    const ended = Promise.withResolvers<undefined>();
    const stop = (): Promise<void> => {
      this.stopCount++;
      return ended.promise;
    };
    const { lane, context } = bench;
    super(profile, name, lane, new KnownParams(context, lane.tools, undefined), {
      firstReady: new Promise(() => undefined),
      run: () => ended.promise,
      status: () => bench.upstream.status(),
      stop,
    });
    [this.bench, this.#ended] = [bench, ended];
  }

  /** False while it waits for the end of another server. */
  get isStarted(): boolean {
    return this.state !== "waiting";
  }

  /** Simulates the exit of the process. */
  async end(): Promise<void> {
    this.#ended.resolve(undefined);
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
  readonly childEra?: Config["childEra"];
  /** False: the test starts the shared server. */
  readonly isStarted?: boolean;
}

export interface Client {
  readonly reply: RecordedReply;
  readonly session: () => Session | undefined;
}

export const IDLE_TIMEOUT_MS = 10_000;

export class LanesBench {
  readonly shared: LaneBench;
  readonly servers: SimulatedServer[] = [];
  readonly sessions: SessionStore;
  readonly eventLog = new EventLog(
    contextOf({ replayMaxBytes: 100_000, replayMaxAgeMs: 1_000_000, replayMaxEvents: 100 }, { defects: UNGUARDED }),
  );
  readonly context: ReturnType<typeof contextOf>;
  readonly pool: Pool;
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
    childEra = "legacy",
    isStarted = true,
  }: LanesInput = {}) {
    this.ids = ids;
    this.sessions = new SessionStore(contextOf({ maxSessions }));
    const endSession = (session: Session): void => this.sessions.end(session);
    this.shared = LaneBench.shared({}, { endSession });
    const settings = { childEra, isolation, maxPrivateServers, sessionsPerMinute, sessionIdleTimeoutMs: idleTimeoutMs };
    const signals = { draining: this.#draining.signal, kill: this.#kill.signal };
    this.context = contextOf(settings, { counters: this.shared.counters, ...signals });
    this.pool = new Pool(this.context, this.sessions, (profile, name) => this.#createServer(profile, name), {
      name: "sidecar",
      version: "1",
    });
    this.opener = new SessionOpener(this.context, this.pool, this.sessions, ids, this.eventLog);
    if (isStarted) this.shared.start();
  }

  get log(): RecordedLog {
    return this.context.log;
  }

  drain(): void {
    this.#draining.abort();
  }

  kill(): void {
    this.#kill.abort();
  }

  /** Sends a client's `initialize`, with or without params. */
  connect(params: JsonObject | "none" = { capabilities: { sampling: {} } }, holder: MemoryHolder = "127.0.0.1"): Client {
    const request = requestOfClient({ id: "i", method: "initialize", ...(params === "none" ? {} : { params }) });
    const reply = new RecordedReply(this.context, '"i"', Date.now());
    let session: Session | undefined;
    const open = (opened: Session | KnownSession): void => {
      if (reply.isFinished) throw new Error("the session was opened after the response");
      if (opened instanceof Session) session = opened;
    };
    this.opener.initialize(reply, request, this.opener.createStreams(AMPLE_MEMORY.account(holder)), undefined, open);
    return { reply, session: () => session };
  }

  connected(): { readonly session: Session; readonly server: SimulatedServer } {
    const client = this.connect();
    const server = this.servers.at(-1);
    server?.bench.start();
    const session = client.session();
    if (server === undefined || session === undefined) throw new Error("there is no session");
    return { session, server };
  }

  #createServer(profile: Profile, name: string): PooledServer {
    if (profile.kind !== "private") return new SimulatedServer(profile, name, this.shared);
    const { streams } = profile;
    const bench = new LaneBench(
      (calls, tools) => new Routing(calls, tools, "legacy", new PrivateSession(calls, tools, streams, () => undefined)),
      {},
      { endSession: (session) => this.sessions.end(session) },
    );
    const server = new SimulatedServer(profile, name, bench);
    this.servers.push(server);
    return server;
  }
}
