// How long it takes from the end of a server until one of its clients has a right answer again.

interface Outage {
  readonly pid: number;
  readonly clients: ReadonlySet<string>;
  /** Undefined where the server itself was asked to end: it records when it does. */
  readonly sinceMs: number | undefined;
  overMs?: number;
}

export interface Recovery {
  readonly recoveries: number;
  /** Ends of servers whose clients have not had a right answer since. */
  readonly neverRecovered: number;
  readonly longestRecoveryMs: number;
}

export class RecoveryClock {
  /** By pid: a server ends once. */
  readonly #outages = new Map<number, Outage>();
  readonly #open = new Set<Outage>();

  expect(pid: number, clients: readonly string[], sinceMs?: number): void {
    if (clients.length === 0 || this.#outages.has(pid)) return;
    const outage = { pid, clients: new Set(clients), sinceMs };
    this.#outages.set(pid, outage);
    this.#open.add(outage);
  }

  onRight(client: string, serverPid: number): void {
    for (const outage of this.#open) {
      if (outage.pid === serverPid || !outage.clients.has(client)) continue;
      outage.overMs = Date.now();
      this.#open.delete(outage);
    }
  }

  /** @param endsMs when servers ended that were asked to; those that are not there were never reached. */
  summary(endsMs: ReadonlyMap<number, number>): Recovery {
    let recoveries = 0;
    let neverRecovered = 0;
    let longestRecoveryMs = 0;
    for (const { pid, sinceMs, overMs } of this.#outages.values()) {
      const beginMs = sinceMs ?? endsMs.get(pid);
      if (beginMs === undefined) continue;
      if (overMs === undefined) {
        neverRecovered++;
      } else {
        recoveries++;
        longestRecoveryMs = Math.max(longestRecoveryMs, overMs - beginMs);
      }
    }
    return { recoveries, neverRecovered, longestRecoveryMs };
  }
}
