// A wrapper with its servers, clients and faults, set up in the same way for each kind of run.

import type { Adapter } from "./adapters.ts";
import type { ChaosClient } from "./client/chaos-client.ts";
import { createClients, type CrowdKind } from "./client/crowd.ts";
import { Saboteur } from "./faults/saboteur.ts";
import { Ledger } from "./ledger.ts";
import { Random } from "./random.ts";
import { RecoveryClock } from "./recovery-clock.ts";
import { Fleet } from "./replicas/fleet.ts";
import { figuresOf, type ReplicaFigures, worst } from "./replicas/figures.ts";
import { ServerProcesses } from "./server-processes.ts";
import type { WrapperEnd, WrapperProcess } from "./wrapper-process.ts";

/** Only a process that is left reaches it. */
const PROCESS_GRACE_MS = 60_000;

export interface StageEnd {
  readonly end: WrapperEnd;
  readonly processesLeft: number;
  readonly unhandledErrors: readonly string[];
  /** What only several replicas have; null for one process. */
  readonly replicas: ReplicaFigures | null;
}

/** Use with `await using`, so that no process is left running after an error. */
export class Stage implements AsyncDisposable {
  readonly ledger = new Ledger();
  readonly random: Random;
  readonly fleet: Fleet;
  readonly saboteur: Saboteur;
  readonly #servers: ServerProcesses;
  readonly #clients: readonly ChaosClient[];

  private constructor(fleet: Fleet, crowd: CrowdKind, servers: ServerProcesses, seed: number) {
    this.fleet = fleet;
    this.random = new Random(seed);
    this.#servers = servers;
    const recovery = new RecoveryClock();
    const onRight = (client: ChaosClient, pid: number): void => recovery.onRight(client.name, pid);
    this.#clients = createClients(crowd, fleet.endpoint, this.ledger, this.random.fork(), onRight);
    this.saboteur = new Saboteur(this.#clients, fleet, servers, recovery, this.random.fork());
  }

  /** @param logFile the file for the wrapper's output. By default, it is deleted with the other files. */
  static async setUp(adapter: Adapter, seed: number, logFile?: string, replicas = 1): Promise<Stage> {
    const servers = new ServerProcesses();
    process.once("exit", () => servers.remove());
    const crowd = replicas > 1 ? "replicas" : adapter.isSubject ? "mixed" : "sessions";
    return new Stage(await Fleet.start(adapter, replicas, servers, logFile), crowd, servers, seed);
  }

  /** The only process, or the first replica. */
  get wrapper(): WrapperProcess {
    return this.fleet.first;
  }

  startLoad(): void {
    for (const client of this.#clients) client.start();
  }

  /** Waits for the responses to all requests, and ends all sessions. */
  async stopLoad(): Promise<void> {
    await Promise.all(this.#clients.map((client) => client.stop()));
  }

  /** Sends SIGTERM to the wrapper under load, and stops everything. */
  async tearDown(): Promise<StageEnd> {
    this.ledger.markEnding();
    const ends = await Promise.all(this.fleet.wrappers.map((wrapper) => wrapper.end()));
    await Promise.all(this.#clients.map((client) => client.finish()));
    for (const client of this.#clients) client.leave();
    const left = await this.#servers.left(PROCESS_GRACE_MS);
    const unhandledErrors = await this.wrapper.unhandledErrors();
    const replicas = this.fleet.wrappers.length === 1 ? null : figuresOf(this.fleet, this.#servers, this.ledger);
    this.#servers.remove();
    return { end: worst([...this.fleet.ends, ...ends]), processesLeft: left.length, unhandledErrors, replicas };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const client of this.#clients) client.leave();
    await Promise.all(this.fleet.wrappers.map((wrapper) => wrapper.end()));
    this.#servers.remove();
  }
}
