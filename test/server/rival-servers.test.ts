import { describe, expect, it } from "vitest";
import { RivalServers } from "../../src/lane/rival-servers.ts";
import type { UpstreamObserver } from "../../src/upstream/port.ts";
import { RecordedLog } from "../support/recorded-log.ts";
import { legacyHandshake } from "./support/handshake.ts";

const REASON = "each exit followed the start of another server: if only one can run at a time, set ISOLATION=shared";
const WARNING = { level: "warn", fields: { count: 6, reason: REASON }, message: "mcp servers end each other" };

function start(server: UpstreamObserver): void {
  server.onStarted({ queuedBytes: 0, send: () => undefined, withdraw: () => undefined });
}

function startReady(server: UpstreamObserver): void {
  start(server);
  server.onReady(legacyHandshake());
}

function exit(server: UpstreamObserver): void {
  const exited = { exitCode: undefined, signal: "SIGKILL", generation: 1, reason: "", likelyCause: undefined, at: new Date(0) };
  server.onLost({ ...exited, stderrTail: [], kind: "signal" }, []);
}

/** Simulated servers of two lanes, of which the first is ready. */
function setUp() {
  const clock = { nowMs: 0 };
  const log = new RecordedLog();
  const rivals = new RivalServers(log, () => clock.nowMs);
  let [running, next] = [rivals.watch(), rivals.watch()];
  startReady(running);
  /** The next server starts, and after this time the running one exits. */
  const turns = (count: number, begin: (server: UpstreamObserver) => void, afterMs: number): void => {
    for (let turn = 0; turn < count; turn++) {
      clock.nowMs += 1000;
      begin(next);
      clock.nowMs += afterMs;
      exit(running);
      if (begin === start) next.onReady(legacyHandshake());
      [running, next] = [next, running];
    }
  };
  return { log, turns, running, clock };
}

describe("rival servers", () => {
  it("two servers that end each other six times in a row are reported once", () => {
    const { log, turns } = setUp();
    turns(5, start, 100);
    expect(log.lines).toEqual([]);
    turns(1, start, 100);
    expect(log.lines).toEqual([WARNING]);
    turns(20, start, 100);
    expect(log.lines).toHaveLength(1);
  });

  it("an exit of the ready server's doing counts within three seconds after readiness", () => {
    const { log, turns } = setUp();
    turns(12, startReady, 3001);
    expect(log.lines).toEqual([]);
    turns(6, startReady, 3000);
    expect(log.lines).toEqual([WARNING]);
  });

  it("a single server that exits again and again is not reported", () => {
    const { log, running, clock } = setUp();
    for (let times = 0; times < 20; times++) {
      clock.nowMs += 100;
      exit(running);
      startReady(running);
    }
    expect(log.lines).toEqual([]);
  });
});
