// The kinds of faults, their schedule, and the one who commits them, each for a randomly chosen client or server.

import { setTimeout as sleep } from "node:timers/promises";
import type { LoadClient } from "./client/load-client.ts";
import {
  CRASH_LOOP_FAULT,
  type CrashLoopKind,
  FIXED_ERAS,
  type FixedEra,
  type ServerEraOption,
  TOOL_FAULTS,
  type ToolFault,
} from "./contract.ts";
import { increment, type Recovery, type RecoveryClock } from "./ledger.ts";
import type { Random } from "./random.ts";
import type { ServerProcesses } from "./server-processes.ts";

/** The faults that the driver commits itself, outside of the server. */
const DRIVER_FAULTS = {
  sigkill: "SIGKILL to a server",
  sigstop: "SIGSTOP to a server, later SIGCONT",
  [CRASH_LOOP_FAULT]: "a server is killed, and its successors exit at their start",
  disconnect_storm: "half of the clients break all their connections",
  burst: "a client sends 300 requests at once",
  come_back: "a client loses a stream during a call, and resumes it",
  delete_during_calls: "a client ends its session while its calls are in flight",
  era_change: "a server is killed, and servers that start later speak other protocol revisions",
} as const;

/** All kinds of faults with their descriptions. In addition, each run ends with a SIGTERM under load. */
export const FAULT_KINDS = { ...TOOL_FAULTS, ...DRIVER_FAULTS } as const;

export type DriverFault = keyof typeof DRIVER_FAULTS;
export type FaultKind = ToolFault | DriverFault;

export const ALL_FAULT_KINDS = Object.keys(FAULT_KINDS) as FaultKind[];

/** The faults with which a server exits. */
const ENDING_FAULTS: ReadonlySet<string> = new Set(["exit_cleanly", "crash", "last_words", "half_line_and_crash"]);

/** Returns those of the faults that are possible with a server of this era. */
export function faultsOf(era: ServerEraOption, kinds: readonly FaultKind[] = ALL_FAULT_KINDS): FaultKind[] {
  return kinds.filter((kind) => kind !== "era_change" || era === "changing");
}

interface ScheduledFault {
  readonly atMs: number;
  readonly kind: FaultKind;
}

/** Plans about one fault per `gapMs`, in rounds. Each round has every kind once, in random order. There is at least one round. */
export function planFaults(kinds: readonly FaultKind[], random: Random, durationMs: number, gapMs: number): ScheduledFault[] {
  const rounds = Math.max(1, Math.floor(durationMs / (kinds.length * gapMs)));
  const order = Array.from({ length: rounds }, () => random.shuffled(kinds)).flat();
  const slotMs = durationMs / order.length;
  return order.map((kind, index) => ({ kind, atMs: (index + random.fraction()) * slotMs }));
}

const CRASH_LOOP_MS = 1200;
const STOPPED_MS = { shortest: 200, longest: 1500 };
const CRASH_LOOP_KINDS: readonly CrashLoopKind[] = ["crash-at-start", "clean-exit-at-start", "crash-at-initialize"];
/** Longer than the pause of a server in a crash loop. */
const RETRY_FOR_MS = 15_000;
const RETRY_PAUSE_MS = 300;

export class Saboteur {
  /** The functions return true if the fault was committed. */
  readonly #byDriver: Readonly<Record<DriverFault, () => boolean | Promise<boolean>>> = {
    sigkill: () => this.#kill(),
    sigstop: () => this.#stop(),
    crash_loop: () => this.#loop(),
    disconnect_storm: () => this.#breakConnections(),
    burst: () => this.#someClient((client) => client.burst()) !== undefined,
    come_back: () => this.#comeBack(),
    delete_during_calls: () => this.#someClient((client) => client.deleteSession()) !== undefined,
    era_change: () => this.#changeEra(),
  };
  readonly #done = new Map<string, number>();
  readonly #clients: readonly LoadClient[];
  readonly #servers: ServerProcesses;
  readonly #recovery: RecoveryClock;
  readonly #random: Random;
  /** The era of servers that start. */
  #era: FixedEra = "legacy";

  constructor(clients: readonly LoadClient[], servers: ServerProcesses, recovery: RecoveryClock, random: Random) {
    this.#clients = clients;
    this.#servers = servers;
    this.#recovery = recovery;
    this.#random = random;
  }

  /** Returns the number of times that each fault was actually committed. */
  committed(): Map<string, number> {
    const counts = new Map(this.#done);
    for (const { kind } of this.#servers.committedFaults()) increment(counts, kind);
    return counts;
  }

  recovery(): Recovery {
    const ends = this.#servers.committedFaults().filter(({ kind }) => ENDING_FAULTS.has(kind));
    return this.#recovery.summary(new Map(ends.map(({ pid, atMs }) => [pid, atMs])));
  }

  /** Commits all faults. Resolves when those that last for a time are over too. */
  async work(schedule: readonly ScheduledFault[]): Promise<void> {
    const startedAtMs = performance.now();
    const lasting: Promise<void>[] = [];
    for (const { atMs, kind } of schedule) {
      await sleep(Math.max(0, startedAtMs + atMs - performance.now()));
      lasting.push(this.#commit(kind));
    }
    await Promise.all(lasting);
  }

  /** Commits the faults that were tried while no server was running. A busy machine takes longer to have one again, up to `patienceMs`. */
  async retryMissing(kinds: readonly FaultKind[], patienceMs: number): Promise<void> {
    const deadlineMs = performance.now() + Math.max(RETRY_FOR_MS, patienceMs);
    while (performance.now() < deadlineMs) {
      const counts = this.committed();
      const missing = kinds.filter((kind) => !counts.has(kind));
      for (const kind of missing) {
        await this.#commit(kind);
        await sleep(RETRY_PAUSE_MS);
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

  /** Causes a crash loop. The recovery is measured from its end. @returns false, because the servers record their exits. */
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

  /** The other servers keep their era until they end. */
  #changeEra(): boolean {
    this.#era = this.#random.pick(FIXED_ERAS.filter((era) => era !== this.#era)) ?? this.#era;
    this.#servers.setEra(this.#era);
    return this.#kill();
  }

  #breakConnections(): boolean {
    const clients = this.#random.shuffled(this.#clients).slice(this.#clients.length / 2);
    for (const client of clients) client.disconnect();
    return true;
  }

  /** Lets a client resume a stream. @returns false, because the fault is counted once the client has received an event. */
  #comeBack(): boolean {
    this.#someClient((client) => client.comeBack(() => increment(this.#done, "come_back")));
    return false;
  }

  #clientsOf(pid: number | undefined): string[] {
    return this.#clients.filter(({ serverPid }) => serverPid === pid).map(({ name }) => name);
  }

  /** Returns the first client, in random order, for which `act` succeeds. */
  #someClient(act: (client: LoadClient) => boolean): LoadClient | undefined {
    return this.#random.shuffled(this.#clients).find(act);
  }

  /** Returns the pid of a running server, chosen by its clients, so that a server with many clients is chosen often. */
  #somePid(): number | undefined {
    const pids = new Set(this.#servers.running().flatMap(({ pid, kind }) => (kind === "server" ? [pid] : [])));
    const used = this.#clients.flatMap(({ serverPid }) => (serverPid !== undefined && pids.has(serverPid) ? [serverPid] : []));
    return this.#random.pick(used) ?? this.#random.pick([...pids]);
  }
}
