// Measures what a session of another replica costs here: to check its id, and to take it up; see README.md. It has no HTTP.

import { startProcess } from "../src/upstream/process-group.ts";
import { parseArgs } from "node:util";
import { Lanes } from "../src/lane/lanes.ts";
import { SessionOpener } from "../src/lane/handshake/session-opener.ts";
import { MemoryBudget } from "../src/memory/memory-budget.ts";
import { Counters } from "../src/observability/counters.ts";
import { Defects } from "../src/observability/defects.ts";
import type { Log } from "../src/observability/log.ts";
import { Secrets } from "../src/observability/redact.ts";
import { type ServerLanesOptions, startSharedLane } from "../src/server-lanes.ts";
import { EventLog } from "../src/sessions/streams/event-log.ts";
import { SessionIds } from "../src/sessions/ids/session-ids.ts";
import { SessionKeys } from "../src/sessions/ids/session-keys.ts";
import { Session } from "../src/sessions/session.ts";
import { SessionStore } from "../src/sessions/session-store.ts";
import { OutputMemory } from "../src/upstream/output-memory.ts";
import { median, percentile } from "./statistics.ts";
import { CHILD_COMMAND } from "./targets.ts";
import { ReadyTimeout } from "../src/upstream/supervisor.ts";

/** The run fails above it. */
const MOST_MEDIAN_US = 50;
const LONG_MS = 60_000;
const WARM_UP = 2000;
const KEY = "a-key-of-both-replicas-of-this-bench";
/** A client of the official SDK. */
const CLIENT = {
  protocolVersion: "2025-11-25",
  capabilitiesText: "{}",
  clientInfoText: '{"name":"bench-client","version":"1.0.0"}',
  needsCapabilities: false,
};

const { values } = parseArgs({ options: { sessions: { type: "string", default: "20000" } } });
const count = Number(values.sessions);
const { gc } = globalThis;
if (gc === undefined) throw new Error("start it with --expose-gc");

const quiet = (): void => undefined;
const log: Log = { debug: quiet, info: quiet, warn: quiet, error: quiet };
const nowMs = (): number => performance.now();

/** Returns the ids of a replica with the key of this bench. */
function replicaIds(): SessionIds {
  return new SessionIds({ keys: new SessionKeys([KEY], ""), maxAgeMs: LONG_MS });
}

function laneOptions(memory: MemoryBudget, sessions: SessionStore, counters: Counters): ServerLanesOptions {
  const [command = "", ...args] = CHILD_COMMAND;
  return {
    command: { command, args, env: {}, cwd: undefined },
    startProcess,
    clientInfo: { name: "bench", version: "1" },
    readyTimeout: new ReadyTimeout(LONG_MS),
    restarts: { firstPauseMs: 1, longestPauseMs: 1, crashLoop: { exits: 100, periodMs: LONG_MS }, restartLimit: undefined },
    limits: {
      requestTimeoutMs: LONG_MS,
      holdTimeoutMs: LONG_MS,
      streamAfterMs: LONG_MS,
      maxHeldRequests: 100,
      maxInFlight: 100,
      maxSessionRequests: 100,
      maxQueuedBytes: 1_000_000,
      maxLineBytes: 1_000_000,
      pingIntervalMs: undefined,
      hungTimeouts: 100,
    },
    retry: "off",
    endSession: (session) => sessions.end(session),
    policy: undefined,
    rivals: undefined,
    observeLane: undefined,
    outputMemory: new OutputMemory(memory),
    counters,
    log,
    secrets: new Secrets({}),
    nowMs,
  };
}

/** Returns the opener of a replica with a real server that all clients share. */
async function startReplica(memory: MemoryBudget, sessions: SessionStore): Promise<{ opener: SessionOpener; stop: () => Promise<void> }> {
  const counters = new Counters();
  const defects = new Defects(log, counters);
  const options = laneOptions(memory, sessions, counters);
  const shared = startSharedLane(options, "legacy");
  await shared.supervisor.firstReady;
  const lanes = new Lanes({
    shared,
    isStateless: () => false,
    createPrivate: () => {
      throw new Error("these clients need no server of their own");
    },
    isolation: "auto",
    maxPrivateServers: 1,
    idleTimeoutMs: LONG_MS,
    sessions,
    defects,
    log,
    nowMs,
  });
  const opener = new SessionOpener({
    lanes,
    sessions,
    ids: replicaIds(),
    eventLog: new EventLog({ replayMaxBytes: 1_000_000, replayMaxAgeMs: LONG_MS, replayMaxEvents: 100 }, nowMs, defects),
    sessionsPerMinute: undefined,
    onSessionEnd: undefined,
    counters,
    log,
    defects,
    nowMs,
  });
  return { opener, stop: () => lanes.stop() };
}

/** Returns the times of an act on each of these, in µs, without those of the warm-up. */
function timesOf(ids: readonly string[], act: (id: string) => void): number[] {
  const timesUs = ids.map((id) => {
    const startedAtMs = performance.now();
    act(id);
    return (performance.now() - startedAtMs) * 1000;
  });
  return timesUs.slice(WARM_UP);
}

function heapBytes(): number {
  gc?.();
  return process.memoryUsage().heapUsed;
}

const memory = new MemoryBudget(Number.MAX_SAFE_INTEGER);
const sessions = new SessionStore(2 * (count + WARM_UP));
const { opener, stop } = await startReplica(memory, sessions);
const lines: string[] = ["| quantity | median, µs | p99, µs |", "| --- | ---: | ---: |"];
function report(title: string, timesUs: readonly number[]): number {
  const middle = median(timesUs);
  const p99 = percentile(
    timesUs.toSorted((a, b) => a - b),
    99,
  );
  lines.push(`| ${title} | ${middle.toFixed(1)} | ${p99.toFixed(1)} |`);
  return middle;
}

const other = replicaIds();
const issue = (): void => {
  for (let issued = 0; issued < count; issued++) other.issue(CLIENT, undefined);
};
// Compiled code takes memory too.
issue();
const issuedFrom = heapBytes();
issue();
const perIssuedBytes = (heapBytes() - issuedFrom) / count;

const ids = Array.from({ length: count + WARM_UP }, () => other.issue(CLIENT, undefined));
/** The same with another signature. */
const forged = ids.map((id) => `${id.slice(0, -4)}${id.at(-4) === "A" ? "B" : "A"}${id.slice(-3)}`);
const account = memory.account("client");
const client = {
  memory: account,
  exchange: { acceptedAtMs: nowMs(), onDisconnect: quiet },
  startsServer: true,
  waitingText: () => "",
};

report(
  "a wrong id is rejected",
  timesOf(forged, (id) => {
    if (opener.recognize(id, undefined) !== undefined) throw new Error("a wrong id is accepted");
  }),
);
if (sessions.size > 0) throw new Error("a session is open although no request has used it");
const beforeBytes = heapBytes();
const takenUpUs = report(
  "an id is checked, and its session is taken up",
  timesOf(ids, (id) => {
    const known = opener.recognize(id, undefined);
    if (known === undefined) throw new Error("the id of another replica is rejected");
    opener.takeUp(known, client, (taken) => {
      if (!(taken instanceof Session)) throw taken;
    });
  }),
);
const perSessionBytes = (heapBytes() - beforeBytes) / ids.length;
if (sessions.size !== ids.length) throw new Error(`${sessions.size} of ${ids.length} sessions are open`);
await stop();

process.stdout.write(`${lines.join("\n")}\n\n`);
process.stdout.write(`id: ${ids[0]?.length} characters\n`);
process.stdout.write(`memory of an id that is issued and never used: ${Math.max(0, Math.round(perIssuedBytes))} bytes\n`);
process.stdout.write(`memory of a session that is taken up: ${perSessionBytes.toFixed(0)} bytes\n`);
if (takenUpUs > MOST_MEDIAN_US) process.exitCode = 1;
