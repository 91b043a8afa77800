// The processes of the sidecar: one, or replicas that the driver ends and replaces.

import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { type Program, type ProgramEnd, ProgramProcess } from "../bench/program.ts";
import type { Endpoint, Replicas, Target } from "./client/exchange.ts";
import { CALLS_VARIABLE, DIRECTORY_VARIABLE, REPLICA_VARIABLE } from "./contract.ts";
import { type Ledger, Tally, type Verdict } from "./ledger.ts";
import type { Random } from "./random.ts";
import type { ServerProcesses } from "./server-processes.ts";

export interface ReplicaFigures {
  readonly count: number;
  /** Calls that servers have executed more than once. */
  readonly executedTwice: readonly string[];
  /** Sessions that ended although their clients had not ended them. */
  readonly sessionEnds: readonly string[];
  /** Replicas that still said 200 at their health URL after SIGTERM. */
  readonly slowToLeave: number;
  /** Replicas that were not ready after the faults. */
  readonly unready: number;
  /** Requests that a replica refused between SIGTERM and its drain. */
  readonly refusedEarly: number;
  /** Streams of calls whose replica was killed, and that were resumed at another one. */
  readonly streamsResumed: number;
}

export function figuresOf(fleet: Fleet, servers: ServerProcesses, { sessionEnds, streamsResumed }: Ledger): ReplicaFigures {
  const { slowToLeave, unready, refusedEarly } = fleet;
  return {
    count: fleet.wrappers.length,
    executedTwice: servers.repeatedCalls(),
    sessionEnds,
    slowToLeave,
    unready,
    refusedEarly,
    streamsResumed,
  };
}

/** Returns the end that is the furthest from a good one: one by force, then one with another exit code, then the slowest. */
export function worst(ends: readonly ProgramEnd[]): ProgramEnd {
  const badness = ({ isForced, exitCode, tookMs }: ProgramEnd): number => tookMs + (isForced ? 2e9 : 0) + (exitCode === 0 ? 0 : 1e9);
  return ends.reduce((found, end) => (badness(end) > badness(found) ? end : found));
}

/** The time in which a load balancer notes that a replica is not ready. Until then, the replica gets requests. */
const NOTICE_MS = 300;
/** Longer than NOTICE_MS by far: on a busy machine, the last requests arrive late, and the end of the drain resets what has not been accepted. */
const PRE_STOP_MS = 1500;
const UNREADY_WITHIN_MS = 800;
const MARGIN_MS = 50;

/** Counts the requests that were refused before the drain, too. */
class ReplicaTally extends Tally {
  /** Infinite until SIGTERM. */
  drainsAtMs = Number.POSITIVE_INFINITY;
  refusedEarly = 0;

  override countEnd(what: string, verdict: Verdict, detail = ""): void {
    super.countEnd(what, verdict, detail);
    if (detail === "SHUTTING_DOWN" && performance.now() < this.drainsAtMs - MARGIN_MS) this.refusedEarly++;
  }
}

class Replica implements Target {
  readonly name: string;
  readonly wrapper: ProgramProcess;
  readonly url: string;
  readonly tally = new ReplicaTally();
  wasKilled = false;
  /** True if it gets no further requests. */
  isLeaving = false;

  constructor(name: string, wrapper: ProgramProcess) {
    this.name = name;
    this.wrapper = wrapper;
    this.url = wrapper.url;
  }
}

export class Fleet implements Replicas {
  /** The ends of replicas by SIGTERM, in the middle of the run. */
  readonly ends: ProgramEnd[] = [];
  /** Replicas whose health URL still answered 200 after SIGTERM. */
  slowToLeave = 0;
  /** Requests that a replica refused after SIGTERM, although it must serve them for PRE_STOP_MS. */
  refusedEarly = 0;
  /** Replicas that were not ready after the faults. */
  unready = 0;
  #endedByItself: string | undefined;
  readonly #program: Program;
  readonly #servers: ServerProcesses;
  readonly #logFile: string | undefined;
  readonly #places: Replica[] = [];
  #lastNumber = 0;
  #turn = 0;
  #isReplacing = false;

  private constructor(program: Program, servers: ServerProcesses, logFile: string | undefined) {
    this.#program = program;
    this.#servers = servers;
    this.#logFile = logFile;
  }

  static async start(program: Program, count: number, servers: ServerProcesses, logFile?: string): Promise<Fleet> {
    const fleet = new Fleet(count === 1 ? program : withOneKey(program), servers, logFile);
    const started = Array.from({ length: count }, () => fleet.#start());
    try {
      fleet.#places.push(...(await Promise.all(started)));
    } catch (error) {
      for (const each of await Promise.allSettled(started)) if (each.status === "fulfilled") await each.value.wrapper.end();
      throw error;
    }
    return fleet;
  }

  get endpoint(): Endpoint {
    const { url, program } = this.first;
    return { url, token: program.token, ...(this.#places.length === 1 ? {} : { replicas: this }) };
  }

  /** The only one, unless there are replicas. */
  get first(): ProgramProcess {
    const [replica] = this.#places;
    if (replica === undefined) throw new Error("no process");
    return replica.wrapper;
  }

  get wrappers(): readonly ProgramProcess[] {
    return this.#places.map(({ wrapper }) => wrapper);
  }

  /** Describes an exit without a signal of the driver; undefined if there was none. */
  get endedByItself(): string | undefined {
    return this.#endedByItself ?? this.wrappers.find(({ endedByItself }) => endedByItself !== undefined)?.endedByItself;
  }

  /** The resident memory of all processes, without that of their servers. */
  rssBytes(): number {
    return this.wrappers.reduce((sum, wrapper) => sum + wrapper.memoryBytes(), 0);
  }

  all(): readonly Replica[] {
    return this.#places;
  }

  next(tried: ReadonlySet<Target>): Replica | undefined {
    const turn = this.#turn++ % this.#places.length;
    const inTurn = [...this.#places.slice(turn), ...this.#places.slice(0, turn)].filter((replica) => !tried.has(replica));
    // While all others are down, one that leaves is better than none.
    return inTurn.find(({ isLeaving }) => !isLeaving) ?? inTurn[0];
  }

  /** Ends a replica and starts another one in its place. Resolves when this is ready. @returns false if another one is being replaced. */
  async replace(signal: "SIGTERM" | "SIGKILL", random: Random): Promise<boolean> {
    const place = random.integer(0, this.#places.length - 1);
    const replica = this.#places[place];
    if (replica === undefined || this.#places.length === 1 || this.#isReplacing) return false;
    this.#isReplacing = true;
    this.#endedByItself ??= replica.wrapper.endedByItself;
    try {
      await (signal === "SIGKILL" ? this.#kill(replica) : this.#terminate(replica));
      this.#places[place] = await this.#start();
    } finally {
      this.#isReplacing = false;
    }
    return true;
  }

  /** Must be called when the replicas have had time to recover from the last fault. */
  async countUnready(): Promise<void> {
    if (this.#places.length === 1) return;
    const states = await Promise.all(this.wrappers.map((wrapper) => wrapper.isReady()));
    this.unready = states.filter((isReady) => !isReady).length;
  }

  async #kill(replica: Replica): Promise<void> {
    replica.wasKilled = true;
    await replica.wrapper.kill();
    // A container ends with all of its processes.
    this.#servers.killAll(replica.name);
  }

  async #terminate(replica: Replica): Promise<void> {
    replica.tally.drainsAtMs = performance.now() + PRE_STOP_MS;
    const ended = replica.wrapper.end();
    const noticed = sleep(NOTICE_MS).then(() => (replica.isLeaving = true));
    await sleep(UNREADY_WITHIN_MS);
    if (await replica.wrapper.isReady()) this.slowToLeave++;
    await noticed;
    this.ends.push(await ended);
    this.refusedEarly += replica.tally.refusedEarly;
  }

  async #start(): Promise<Replica> {
    const name = `replica-${++this.#lastNumber}`;
    const { directory } = this.#servers;
    const environment = { ...this.#program.environment, [REPLICA_VARIABLE]: name, [DIRECTORY_VARIABLE]: directory };
    return new Replica(
      name,
      await ProgramProcess.start({ ...this.#program, environment }, this.#logFile ?? join(directory, "sidecar.log")),
    );
  }
}

/** Returns a sidecar whose replicas take up the sessions of each other. Its servers record all calls. */
function withOneKey(program: Program): Program {
  const ours = {
    CLAW_MCP_STDIO_SESSION_KEY: randomBytes(24).toString("hex"),
    CLAW_MCP_STDIO_PRE_STOP_MS: String(PRE_STOP_MS),
    [CALLS_VARIABLE]: "recorded",
  };
  return { ...program, environment: { ...program.environment, ...ours } };
}
