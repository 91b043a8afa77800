// Commits the faults of the schedule, each against a client or server that chance has chosen.

import { setTimeout as sleep } from "node:timers/promises";
import type { LoadClient } from "../client/load-client.ts";
import { type CrashLoopKind, TOOL_FAULTS, type ToolFault } from "../contract.ts";
import { increment } from "../ledger.ts";
import type { Random } from "../random.ts";
import type { Recovery, RecoveryClock } from "../recovery-clock.ts";
import type { ServerProcesses } from "../server-processes.ts";
import { type DriverFault, ENDING_FAULTS, type FaultKind } from "./kinds.ts";
import type { ScheduledFault } from "./schedule.ts";

const CRASH_LOOP_MS = 1200;
const STOPPED_MS = { shortest: 200, longest: 1500 };
const CRASH_LOOP_KINDS: readonly CrashLoopKind[] = ["crash-at-start", "clean-exit-at-start", "crash-at-initialize"];
const MAKE_UP_ROUNDS = 5;
const MAKE_UP_PAUSE_MS = 300;

export class Saboteur {
  /** Each tells whether it was committed. */
  readonly #byDriver: Readonly<Record<DriverFault, () => boolean | Promise<boolean>>> = {
    sigkill: () => this.#kill(),
    sigstop: () => this.#stop(),
    crash_loop: () => this.#loop(),
    disconnect_storm: () => this.#breakConnections(),
    burst: () => this.#someClient((client) => client.burst()) !== undefined,
    come_back: () => this.#comeBack(),
    delete_during_calls: () => this.#someClient((client) => client.deleteSession()) !== undefined,
  };
  /** What the driver did itself; what servers do on request they record. */
  readonly #done = new Map<string, number>();
  readonly #clients: readonly LoadClient[];
  readonly #servers: ServerProcesses;
  readonly #recovery: RecoveryClock;
  readonly #random: Random;

  constructor(clients: readonly LoadClient[], servers: ServerProcesses, recovery: RecoveryClock, random: Random) {
    this.#clients = clients;
    this.#servers = servers;
    this.#recovery = recovery;
    this.#random = random;
  }

  /** How often each fault has really been committed. */
  committed(): Map<string, number> {
    const counts = new Map(this.#done);
    for (const { kind } of this.#servers.committedFaults()) increment(counts, kind);
    return counts;
  }

  /** How the servers came back. */
  recovery(): Recovery {
    return this.#recovery.summary(new Map(this.#servers.committedFaults().map(({ pid, atMs }) => [pid, atMs])));
  }

  /** Resolves when all have been committed and what they stopped goes on again. */
  async work(schedule: readonly ScheduledFault[]): Promise<void> {
    const startedAtMs = performance.now();
    const lasting: Promise<void>[] = [];
    for (const { atMs, kind } of schedule) {
      await sleep(Math.max(0, startedAtMs + atMs - performance.now()));
      lasting.push(this.#commit(kind));
    }
    await Promise.all(lasting);
  }

  /** Commits what was tried, but reached no server because there was none at that moment. */
  async makeUpFor(kinds: readonly FaultKind[]): Promise<void> {
    for (let round = 0; round < MAKE_UP_ROUNDS; round++) {
      const counts = this.committed();
      const missing = kinds.filter((kind) => !counts.has(kind));
      for (const kind of missing) {
        await this.#commit(kind);
        await sleep(MAKE_UP_PAUSE_MS);
      }
      if (missing.length === 0) return;
    }
  }

  async #commit(kind: FaultKind): Promise<void> {
    if (Object.hasOwn(TOOL_FAULTS, kind)) return this.#provoke(kind as ToolFault);
    if (await this.#byDriver[kind as DriverFault]()) increment(this.#done, kind);
  }

  #provoke(kind: ToolFault): void {
    const client = this.#someClient((candidate) => candidate.provoke(kind));
    if (client?.serverPid !== undefined && ENDING_FAULTS.has(kind))
      this.#recovery.expect(client.serverPid, this.#clientsOf(client.serverPid));
  }

  #kill(): boolean {
    const pid = this.#somePid();
    if (pid === undefined || !this.#servers.signal(pid, "SIGKILL")) return false;
    this.#recovery.expect(pid, this.#clientsOf(pid), Date.now());
    return true;
  }

  async #stop(): Promise<boolean> {
    const pid = this.#somePid();
    if (pid === undefined || !this.#servers.signal(pid, "SIGSTOP")) return false;
    await sleep(this.#random.integer(STOPPED_MS.shortest, STOPPED_MS.longest));
    this.#servers.signal(pid, "SIGCONT");
    return true;
  }

  /** The clock of the recovery runs from the end of the loop. @returns false: the servers record what they do. */
  async #loop(): Promise<boolean> {
    const pid = this.#somePid();
    this.#servers.setCrashLoop(this.#random.pick(CRASH_LOOP_KINDS));
    const hasBegun = pid !== undefined && this.#servers.signal(pid, "SIGKILL");
    const victims = this.#clientsOf(pid);
    await sleep(CRASH_LOOP_MS);
    this.#servers.setCrashLoop(undefined);
    if (hasBegun) this.#recovery.expect(pid, victims, Date.now());
    return false;
  }

  #breakConnections(): boolean {
    const clients = this.#random.shuffled(this.#clients).slice(this.#clients.length / 2);
    for (const client of clients) client.disconnect();
    return true;
  }

  /** Only where there was an event that can be come back to: which is known later. */
  #comeBack(): boolean {
    this.#someClient((client) => client.comeBack(() => increment(this.#done, "come_back")));
    return false;
  }

  #clientsOf(pid: number | undefined): string[] {
    return this.#clients.filter(({ serverPid }) => serverPid === pid).map(({ name }) => name);
  }

  /** The first for which it can be done. */
  #someClient(act: (client: LoadClient) => boolean): LoadClient | undefined {
    return this.#random.shuffled(this.#clients).find(act);
  }

  /** A server that has answered and runs: chosen by its clients, so that one with many is chosen often. */
  #somePid(): number | undefined {
    const pids = new Set(this.#servers.running().flatMap(({ pid, kind }) => (kind === "server" ? [pid] : [])));
    const used = this.#clients.flatMap(({ serverPid }) => (serverPid !== undefined && pids.has(serverPid) ? [serverPid] : []));
    return this.#random.pick(used) ?? this.#random.pick([...pids]);
  }
}
