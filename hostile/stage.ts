// One attack on one sidecar with little memory, with an observer, and the bars that the sidecar must meet.

import { randomBytes } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { MAIN, type Program, ProgramProcess } from "../bench/program.ts";
import { DIRECTORY_VARIABLE } from "../chaos/contract.ts";
import type { Random } from "../chaos/random.ts";
import { ServerProcesses } from "../chaos/server-processes.ts";
import { Attacker, ReplyCounts, within } from "./attacker.ts";
import type { ServerEra, ToolList } from "./contract.ts";
import { type Observation, Observer } from "./observer.ts";

export interface Attack {
  /** The group and a description: the row of the table. */
  readonly name: string;
  readonly flags?: readonly string[];
  readonly environment?: Readonly<Record<string, string>>;
  /** The tools that the server lists; by default a few plain ones. */
  readonly tools?: ToolList;
  /** The protocol era of the server; by default one with sessions. */
  readonly era?: ServerEra;
  /** True if the bystander has no session either. */
  readonly isStateless?: boolean;
  /** True if the server itself cannot serve the bystander for a time. Errors that report this are then allowed. */
  readonly mayRefuse?: boolean;
  /** The memory budget. The peak of memory must not exceed it by more than the base. */
  readonly budgetBytes?: number;
  /** True if the peak of memory of this attack is the base for those with a budget. */
  readonly isLoadBase?: boolean;
  /** Begins when the attacker has a session. */
  readonly run: (scene: Scene) => Promise<unknown>;
}

export interface Scene {
  readonly attacker: Attacker;
  /** Twenty further clients, each with a token of its own. */
  readonly others: readonly Attacker[];
  /** Creates a file that servers read; see contract.ts. */
  readonly setSwitch: (name: string, text: string) => void;
  readonly countServers: () => number;
}

export interface Result {
  readonly attack: Attack;
  readonly replies: string;
  /** The exit of the sidecar; undefined if it still runs. */
  readonly end: string | undefined;
  readonly observation: Observation | undefined;
  readonly misses: readonly string[];
}

/** Time for which only the bystander sends calls, until the effects of the start are over. */
const WARM_UP_MS = 300;
const ATTACK_LIMIT_MS = 45_000;
const END_NEWS_MS = 2000;
const PROCESS_GRACE_MS = 5000;
const MAX_GAP_MS = 500;
/** Codes of errors that are allowed while the server cannot serve. */
const EXCUSED = /^(UPSTREAM_.*|OVERLOADED|REQUEST_TIMEOUT)$/;
/** Times shorter than the defaults, so that each attack ends soon. */
const TIMES = [
  ["--request-timeout-ms", "20000"],
  ["--hold-timeout-ms", "10000"],
  ["--ready-timeout-ms", "10000"],
  ["--drain-timeout-ms", "1000"],
  ["--restart-backoff-ms", "50"],
  ["--restart-max-ms", "1000"],
  ["--reader-timeout-ms", "5000"],
  ["--headers-timeout-ms", "3000"],
  ["--body-timeout-ms", "10000"],
].flat();
const NODE_FLAGS = ["--max-old-space-size=256", "--max-semi-space-size=8"];
const SERVER_FILE = join(import.meta.dirname, "server", "main.ts");

const [TOKEN = "", BYSTANDER_TOKEN = "", ...OTHER_TOKENS] = Array.from({ length: 22 }, () => randomBytes(24).toString("hex"));
const TOKEN_DIRECTORY = mkdtempSync(join(tmpdir(), "hostile-"));
const TOKEN_FILE = join(TOKEN_DIRECTORY, "tokens");
writeFileSync(TOKEN_FILE, [TOKEN, BYSTANDER_TOKEN, ...OTHER_TOKENS].join("\n"));
process.on("exit", () => rmSync(TOKEN_DIRECTORY, { recursive: true, force: true }));

/** @param basePeakBytes the peak of memory under an ordinary load, if it was measured in this run. */
export async function stage(
  attack: Attack,
  random: Random,
  basePeakBytes: number | undefined,
  givenLogFile?: string,
  maxGapMs = MAX_GAP_MS,
): Promise<Result> {
  const servers = new ServerProcesses();
  const { directory } = servers;
  const logFile = givenLogFile ?? join(directory, "sidecar.log");
  const ended = new AbortController();
  let sidecar: ProgramProcess | undefined;
  try {
    sidecar = await ProgramProcess.start(sidecarUnderAttack(attack, directory), logFile);
    const { pid, origin } = sidecar;
    const seed = random.integer(1, 1e9);
    using observer = await Observer.start({ origin, token: BYSTANDER_TOKEN, pid, isStateless: attack.isStateless === true, seed });
    await sleep(WARM_UP_MS);
    const replies = new ReplyCounts();
    const attacker = new Attacker(origin, TOKEN, replies, ended.signal);
    const scene: Scene = {
      attacker,
      others: OTHER_TOKENS.map((token) => new Attacker(origin, token, replies, ended.signal)),
      setSwitch: (name, text) => writeFileSync(join(directory, name), text),
      countServers: () => servers.running().filter(({ kind }) => kind === "server").length,
    };
    const running = attacker.open().then(() => attack.run(scene));
    const isDone = await within(
      running.then(() => true),
      ATTACK_LIMIT_MS,
    );
    const observation = await observer.report();
    // The event of an exit may be later than its effect on connections.
    if (!observation.isServedAfterwards) await sleep(END_NEWS_MS);
    const end = sidecar.endedByItself;
    ended.abort();
    await sidecar.end();
    const left = await servers.left(PROCESS_GRACE_MS);
    const misses = [...replies.breaches, ...missesIn(attack, observation, basePeakBytes, maxGapMs)];
    if (end !== undefined) misses.push(`the sidecar ended: ${end}`);
    else if (!observation.isServedAfterwards) misses.push("the bystander was not served after the attack");
    for (const line of await sidecar.unhandledErrors()) misses.push(`unhandled: ${line}`);
    if (left.length > 0) misses.push(`${left.length} processes left`);
    if (isDone !== true) misses.push("the attack did not end in time");
    return { attack, replies: replies.toString(), end, observation, misses };
  } finally {
    ended.abort();
    await sidecar?.end();
    servers.remove();
  }
}

function missesIn(attack: Attack, observation: Observation, basePeakBytes: number | undefined, maxGapMs: number): string[] {
  const { gapMs, unanswered, calls, peakRssBytes } = observation;
  const found: string[] = [];
  if (gapMs > maxGapMs) found.push(`/livez did not respond for ${gapMs.toFixed(0)} ms`);
  if (unanswered > 0) found.push(`${unanswered} requests to /livez got no response`);
  if (attack.budgetBytes !== undefined && basePeakBytes !== undefined) {
    const excessBytes = peakRssBytes - attack.budgetBytes - basePeakBytes;
    if (excessBytes > 0) found.push(`the memory exceeds the budget and the base by ${(excessBytes / 1e6).toFixed(0)} MB`);
  }
  for (const [outcome, count] of Object.entries(calls)) {
    const isExcused = outcome === "ok" || (attack.mayRefuse === true && EXCUSED.test(outcome));
    if (!isExcused) found.push(`calls of the bystander: ${count}× ${outcome}`);
  }
  return found;
}

function sidecarUnderAttack({ flags = [], environment = {}, tools = "plain", era = "legacy" }: Attack, directory: string): Program {
  return {
    name: "claw",
    token: TOKEN,
    environment: {
      CLAW_MCP_STDIO_AUTH_TOKEN_FILE: TOKEN_FILE,
      // With this secret of the server, the sidecar searches all forwarded text for it.
      API_KEY: "hostile-secret-0123456789",
      [DIRECTORY_VARIABLE]: directory,
      ...environment,
    },
    healthPath: "/readyz",
    nodeArgs: (port) => {
      const own = [...NODE_FLAGS, MAIN, "--addr", `127.0.0.1:${port}`, ...TIMES, ...flags];
      return [...own, "--", process.execPath, SERVER_FILE, tools, era];
    },
  };
}
