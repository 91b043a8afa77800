import { describe, expect, it } from "vitest";
import { RivalServers } from "../../src/lane/rival-servers.ts";
import type { ExitKind } from "../../src/observability/counters.ts";
import type { UpstreamInput, UpstreamObserver } from "../../src/upstream/port.ts";
import { legacyHandshake } from "./support/handshake.ts";
import { RecordedLog } from "../support/recorded-log.ts";

const INPUT: UpstreamInput = { queuedBytes: 0, send: () => undefined, withdraw: () => undefined };
const HANDSHAKE = legacyHandshake();
const WARNING = {
  level: "warn",
  fields: {
    count: 6,
    reason: "each exit followed the start of another server: if only one can run at a time, set ISOLATION=shared",
  },
  message: "mcp servers end each other",
};

/** Simulated servers of several lanes. */
class RivalBench {
  readonly log = new RecordedLog();
  nowMs = 0;
  readonly #rivals = new RivalServers(this.log, () => this.nowMs);

  server(): SimulatedServer {
    return new SimulatedServer(this.#rivals.watch());
  }

  /** The first server takes the place of the second. */
  takeOver(from: SimulatedServer, by: SimulatedServer): void {
    this.nowMs += 1000;
    by.start();
    this.nowMs += 100;
    from.exit();
    this.nowMs += 100;
    by.becomeReady();
  }

  /** Two servers take each other's place by turns. */
  takeTurns(first: SimulatedServer, second: SimulatedServer, times: number): void {
    for (let turn = 0; turn < times; turn++) {
      if (turn % 2 === 0) this.takeOver(first, second);
      else this.takeOver(second, first);
    }
  }
}

/** A simulated server of one lane. */
class SimulatedServer {
  readonly #observer: UpstreamObserver;

  constructor(observer: UpstreamObserver) {
    this.#observer = observer;
  }

  start(): void {
    this.#observer.onStarted(INPUT);
  }

  becomeReady(): this {
    this.#observer.onReady(HANDSHAKE);
    return this;
  }

  startReady(): this {
    this.start();
    return this.becomeReady();
  }

  exit(kind: ExitKind = "signal"): void {
    const exit = { exitCode: undefined, signal: "SIGKILL", generation: 1, reason: "", likelyCause: undefined, at: new Date(0) };
    this.#observer.onLost({ ...exit, stderrTail: [], kind }, []);
  }
}

describe("rival servers", () => {
  it("two servers that end each other six times in a row are reported once", () => {
    const bench = new RivalBench();
    const [first, second] = [bench.server().startReady(), bench.server()];
    bench.takeTurns(first, second, 5);
    expect(bench.log.lines).toEqual([]);
    bench.takeTurns(second, first, 1);
    expect(bench.log.lines).toEqual([WARNING]);
    bench.takeTurns(first, second, 20);
    expect(bench.log.lines).toHaveLength(1);
  });

  it("an exit of the ready server's doing counts within three seconds after readiness", () => {
    const bench = new RivalBench();
    let [running, next] = [bench.server().startReady(), bench.server()];
    const turn = (afterMs: number): void => {
      bench.nowMs += 1000;
      next.startReady();
      bench.nowMs += afterMs;
      running.exit();
      [running, next] = [next, running];
    };
    for (let times = 0; times < 12; times++) turn(3001);
    expect(bench.log.lines).toEqual([]);
    for (let times = 0; times < 6; times++) turn(3000);
    expect(bench.log.lines).toEqual([WARNING]);
  });

  it("a single server that exits again and again is not reported", () => {
    const bench = new RivalBench();
    const server = bench.server();
    for (let times = 0; times < 20; times++) {
      server.startReady();
      bench.nowMs += 100;
      server.exit();
    }
    expect(bench.log.lines).toEqual([]);
  });

  it("servers that crash at once when they are ready are not reported", () => {
    const bench = new RivalBench();
    const [first, second] = [bench.server(), bench.server()];
    first.start();
    for (let times = 0; times < 20; times++) {
      for (const [crashing, starting] of [
        [first, second],
        [second, first],
      ] as const) {
        bench.nowMs += 500;
        starting.start();
        bench.nowMs += 500;
        crashing.becomeReady();
        crashing.exit("crash");
      }
    }
    expect(bench.log.lines).toEqual([]);
  });
});
