// Measures the time from the exit of a server to the next right response to one of its clients.

interface Outage {
  readonly pid: number;
  readonly clients: ReadonlySet<string>;
  /** Undefined if a call makes the server exit: the server then records the time. */
  readonly exitedAtMs: number | undefined;
  recoveredAtMs?: number;
}

export interface Recovery {
  readonly recoveries: number;
  /** Exits of servers whose clients have not had a right response since. */
  readonly neverRecovered: number;
  readonly longestRecoveryMs: number;
}

export class RecoveryClock {
  /** The outages by pid of the server. */
  readonly #outages = new Map<number, Outage>();
  readonly #open = new Set<Outage>();

  expect(pid: number, clients: readonly string[], exitedAtMs?: number): void {
    if (clients.length === 0 || this.#outages.has(pid)) return;
    const outage = { pid, clients: new Set(clients), exitedAtMs };
    this.#outages.set(pid, outage);
    this.#open.add(outage);
  }

  onRight(client: string, serverPid: number): void {
    for (const outage of this.#open) {
      if (outage.pid === serverPid || !outage.clients.has(client)) continue;
      outage.recoveredAtMs = Date.now();
      this.#open.delete(outage);
    }
  }

  /** @param endsMs the recorded times of exits by pid. A server without one did not exit: the call never reached it. */
  summary(endsMs: ReadonlyMap<number, number>): Recovery {
    let recoveries = 0;
    let neverRecovered = 0;
    let longestRecoveryMs = 0;
    for (const { pid, exitedAtMs, recoveredAtMs } of this.#outages.values()) {
      const beginMs = exitedAtMs ?? endsMs.get(pid);
      if (beginMs === undefined) continue;
      if (recoveredAtMs === undefined) {
        neverRecovered++;
      } else {
        recoveries++;
        longestRecoveryMs = Math.max(longestRecoveryMs, recoveredAtMs - beginMs);
      }
    }
    return { recoveries, neverRecovered, longestRecoveryMs };
  }
}
