// A wrapper with its servers, clients and faults, set up in the same way for each kind of run.

import type { Adapter } from "./adapters.ts";
import type { ChaosClient } from "./client/chaos-client.ts";
import { createClients, type CrowdKind } from "./client/crowd.ts";
import { Saboteur } from "./faults/saboteur.ts";
import { Ledger } from "./ledger.ts";
import { Random } from "./random.ts";
import { RecoveryClock } from "./recovery-clock.ts";
import { ServerProcesses } from "./server-processes.ts";
import { type WrapperEnd, WrapperProcess } from "./wrapper-process.ts";

const PROCESS_GRACE_MS = 5000;

export interface StageEnd {
  readonly end: WrapperEnd;
  readonly processesLeft: number;
  readonly unhandledErrors: readonly string[];
}

/** Use with `await using`, so that no process is left running after an error. */
export class Stage implements AsyncDisposable {
  readonly ledger = new Ledger();
  readonly random: Random;
  readonly wrapper: WrapperProcess;
  readonly saboteur: Saboteur;
  readonly #servers: ServerProcesses;
  readonly #clients: readonly ChaosClient[];

  private constructor(wrapper: WrapperProcess, crowd: CrowdKind, servers: ServerProcesses, seed: number) {
    this.wrapper = wrapper;
    this.random = new Random(seed);
    this.#servers = servers;
    const recovery = new RecoveryClock();
    const onRight = (client: ChaosClient, pid: number): void => recovery.onRight(client.name, pid);
    this.#clients = createClients(crowd, wrapper.endpoint, this.ledger, this.random.fork(), onRight);
    this.saboteur = new Saboteur(this.#clients, servers, recovery, this.random.fork());
  }

  /** @param logFile the file for the wrapper's output. By default, it is deleted with the other files. */
  static async setUp(adapter: Adapter, seed: number, logFile?: string): Promise<Stage> {
    const servers = new ServerProcesses();
    process.once("exit", () => servers.remove());
    return new Stage(
      await WrapperProcess.start(adapter, servers.directory, logFile),
      adapter.isSubject ? "mixed" : "sessions",
      servers,
      seed,
    );
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
    const end = await this.wrapper.end();
    await Promise.all(this.#clients.map((client) => client.finish()));
    for (const client of this.#clients) client.leave();
    const left = await this.#servers.left(PROCESS_GRACE_MS);
    const unhandledErrors = await this.wrapper.unhandledErrors();
    this.#servers.remove();
    return { end, processesLeft: left.length, unhandledErrors };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const client of this.#clients) client.leave();
    await this.wrapper.end();
    this.#servers.remove();
  }
}
