// What happens to others during an attack: a bystander that calls a tool, and the sidecar's `/livez` and memory. It runs in a process of its
// own, so that the load of an attack on the harness does not affect its clock.

import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { Agent } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { memoryBytes, readProc } from "../bench/proc.ts";
import { increment } from "../chaos/ledger.ts";
import { type HttpCall, type HttpReply, send } from "../test/support/http-client.ts";
import { readMessages } from "../test/support/json-rpc.ts";
import { McpClient } from "../test/support/mcp-client.ts";
import { ModernClient } from "../test/support/modern-client.ts";
import { within } from "./attacker.ts";
import { BYSTANDER_MARK } from "./contract.ts";

export interface Watched {
  readonly origin: string;
  readonly token: string;
  readonly pid: number;
  /** True if the bystander has no session (MCP 2026-07-28). */
  readonly isStateless: boolean;
  /** A part of the bystander's texts. */
  readonly seed: number;
}

export interface Observation {
  /** The longest response time of /livez, without delays that the sidecar did not cause. */
  readonly gapMs: number;
  /** The longest response time of /livez by the clock. */
  readonly clockGapMs: number;
  /** Requests to /livez without a response: the connection was closed, or they timed out. */
  readonly unanswered: number;
  readonly peakRssBytes: number;
  /** The outcomes of the bystander's calls: "ok", "lost", "crossed", or the stable code of an error. */
  readonly calls: Readonly<Record<string, number>>;
  /** Details of the first lost and crossed calls. */
  readonly examples: readonly string[];
  /** True if the bystander got a right response after the attack. */
  readonly isServedAfterwards: boolean;
}

const START_LIMIT_MS = 30_000;
/** Longer than all waits of the observer together. */
const REPORT_LIMIT_MS = 120_000;
const MEMORY_INTERVAL_MS = 50;
const SERVED_LIMIT_MS = 15_000;
const STOP_LIMIT_MS = 25_000;
/** The delays of concurrent calls. Some respond late, so that a wrong response can match a pending call. */
const DELAYS_MS = [0, 15, 40, 40];
const PAUSE_MS = 10;
/** Longer than any attack may take. */
const LOST_AFTER_MS = 30_000;
const LIVEZ_LIMIT_MS = 60_000;
const LIVEZ_INTERVAL_MS = 25;
const LAG_INTERVAL_MS = 5;
const MAX_EXAMPLES = 5;

/** The observer's process. Use with `using`, so that it is killed. */
export class Observer implements Disposable {
  readonly #child: ChildProcess;

  private constructor(watched: Watched) {
    this.#child = fork(import.meta.filename, [JSON.stringify(watched)], { stdio: ["ignore", "ignore", "inherit", "ipc"] });
  }

  /** Starts the observer. Resolves when the bystander has a session and the observation has begun. */
  static async start(watched: Watched): Promise<Observer> {
    const observer = new Observer(watched);
    await observer.#message(START_LIMIT_MS);
    return observer;
  }

  /** Ends the observation, after a call that is sent from now on is answered. */
  async report(): Promise<Observation> {
    this.#child.send("report");
    return (await this.#message(REPORT_LIMIT_MS)) as Observation;
  }

  [Symbol.dispose](): void {
    this.#child.kill("SIGKILL");
  }

  async #message(limitMs: number): Promise<unknown> {
    const exited = once(this.#child, "exit").then(() => undefined);
    const message = await within(Promise.race([once(this.#child, "message"), exited]), limitMs);
    if (message !== undefined) return message[0];
    this.#child.kill("SIGKILL");
    throw new Error(`the observer exited, or did not answer in ${limitMs} ms`);
  }
}

type PostCall = (id: string | number, args: object, call: HttpCall) => Promise<HttpReply>;

/** A client that is not involved in the attack. It calls a tool continuously, and checks that each response is its own. */
class Bystander {
  readonly calls = new Map<string, number>();
  readonly examples: string[] = [];
  readonly #post: PostCall;
  readonly #agent = new Agent({ keepAlive: true });
  readonly #seed: number;
  readonly #ended = new AbortController();
  readonly #pending: readonly Promise<void>[];
  #count = 0;
  #isCalling = true;

  constructor(post: PostCall, seed: number) {
    this.#post = post;
    this.#seed = seed;
    this.#pending = DELAYS_MS.map((delayMs) => this.#keepCalling(delayMs));
  }

  /** Sends calls until one gets a right response. @returns false if this takes too long. */
  async isServed(): Promise<boolean> {
    const deadlineMs = performance.now() + SERVED_LIMIT_MS;
    while (performance.now() < deadlineMs && this.#isCalling) {
      if ((await this.#call(0, AbortSignal.timeout(Math.ceil(Math.max(1, deadlineMs - performance.now()))))) === "ok") return true;
      await sleep(PAUSE_MS);
    }
    return false;
  }

  /** Stops sending calls. Must be called when the sidecar has exited. */
  giveUp(): void {
    this.#isCalling = false;
  }

  /** Stops sending calls, and waits for the responses. */
  async stop(): Promise<void> {
    this.#isCalling = false;
    const timer = setTimeout(() => this.#ended.abort(), STOP_LIMIT_MS);
    await Promise.all(this.#pending);
    clearTimeout(timer);
    this.#agent.destroy();
  }

  async #keepCalling(delayMs: number): Promise<void> {
    while (this.#isCalling) {
      increment(this.calls, await this.#call(delayMs, AbortSignal.any([this.#ended.signal, AbortSignal.timeout(LOST_AFTER_MS)])));
      await sleep(PAUSE_MS);
    }
  }

  async #call(delayMs: number, signal: AbortSignal): Promise<string> {
    const number = ++this.#count;
    const id = number % 2 === 0 ? number : `call ${number}`;
    const text = `${BYSTANDER_MARK} ${this.#seed} ${number} – größer`;
    try {
      const reply = await this.#post(id, { text, delayMs }, { signal, agent: this.#agent });
      const outcome = outcomeOf(reply, id, text);
      if (outcome === "crossed" || outcome === "lost") this.#keep(outcome, id, `${reply.status} ${reply.body}`);
      return outcome;
    } catch (error) {
      this.#keep("lost", id, error instanceof Error ? `${error.name}: ${error.message}` : String(error));
      return "lost";
    }
  }

  #keep(outcome: string, id: string | number, detail: string): void {
    if (this.examples.length < MAX_EXAMPLES) this.examples.push(`${outcome}: ${id}: ${detail.slice(0, 300)}`);
  }
}

/** Opens the bystander's session, if it has one. @returns a function that calls the honest tool. */
async function callsOf({ origin, token, isStateless }: Watched): Promise<PostCall> {
  const url = `${origin}/mcp`;
  if (isStateless) {
    const modern = new ModernClient(url, { token });
    return (id, args, call) => send(url, { ...modern.compose("tools/call", { name: "echo", arguments: args }, { id }), ...call });
  }
  const client = await new McpClient(url, { token }).open();
  return (id, args, call) => client.post({ jsonrpc: "2.0", id, method: "tools/call", params: { name: "echo", arguments: args } }, call);
}

function outcomeOf(reply: HttpReply, id: string | number, text: string): string {
  if (reply.body === "") return "lost";
  const messages = readMessages(reply);
  // No call asks for progress or log messages, and a forged notification is not its own.
  if (messages.some(({ params }) => params?.["_meta"] !== undefined)) return "crossed";
  const answers = messages.filter(({ method }) => method === undefined);
  const [answer] = answers;
  if (answer === undefined) return "lost";
  // A request that is rejected before it is read gets an error without an id.
  const isOwn = answer.id === id || (answer.id === undefined && answer.error !== undefined);
  if (answers.length > 1 || !isOwn) return "crossed";
  if (answer.result !== undefined) return answer.result.content?.[0]?.text === text ? "ok" : "crossed";
  const code = answer.error?.data?.["code"];
  return typeof code === "string" ? code : "crossed";
}

class LivezWatcher {
  gapMs = 0;
  clockGapMs = 0;
  unanswered = 0;
  readonly #watched: Watched;
  readonly #measuringLag = setInterval(() => this.#measureLag(), LAG_INTERVAL_MS);
  readonly #watching: Promise<void>;
  #lagMs = 0;
  #lagTickMs = performance.now();
  #isStopping = false;

  constructor(watched: Watched) {
    this.#watched = watched;
    this.#watching = this.#watch();
  }

  giveUp(): void {
    this.#isStopping = true;
  }

  /** Stops sending requests, and waits for the response to the pending one. */
  async stop(): Promise<void> {
    this.#isStopping = true;
    await this.#watching;
    clearInterval(this.#measuringLag);
  }

  async #watch(): Promise<void> {
    const { origin, pid } = this.#watched;
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    while (!this.#isStopping) {
      const sentAtMs = performance.now();
      this.#lagMs = 0;
      this.#lagTickMs = sentAtMs;
      const waitedBefore = runQueueWaitMs(pid);
      const call = { method: "GET", agent, signal: AbortSignal.timeout(LIVEZ_LIMIT_MS) };
      const reply = await send(`${origin}/livez`, call).catch(() => undefined);
      const clockMs = performance.now() - sentAtMs;
      this.#measureLag();
      // Neither the lag of this process nor the sidecar's wait for a core is the sidecar's fault. These times may overlap.
      const excusedMs = Math.max(this.#lagMs, runQueueWaitMs(pid) - waitedBefore);
      if (reply?.status !== 200) this.unanswered++;
      this.clockGapMs = Math.max(this.clockGapMs, clockMs);
      this.gapMs = Math.max(this.gapMs, clockMs - excusedMs);
      await sleep(Math.max(0, LIVEZ_INTERVAL_MS - clockMs));
    }
    agent.destroy();
  }

  #measureLag(): void {
    const nowMs = performance.now();
    this.#lagMs += Math.max(0, nowMs - this.#lagTickMs - 2 * LAG_INTERVAL_MS);
    this.#lagTickMs = nowMs;
  }
}

/** Returns the time that a process's main thread was ready without a core. It is 0 after an exit, or if the kernel does not count it. */
function runQueueWaitMs(pid: number): number {
  return Number(readProc(`${pid}/task/${pid}/schedstat`)?.split(" ")[1] ?? 0) / 1e6;
}

async function observe(watched: Watched): Promise<() => Promise<Observation>> {
  const bystander = new Bystander(await callsOf(watched), watched.seed);
  const livez = new LivezWatcher(watched);
  let peakRssBytes = 0;
  const measuringMemory = setInterval(() => {
    const bytes = memoryBytes(watched.pid, "VmHWM");
    if (!Number.isNaN(bytes)) peakRssBytes = bytes;
    else {
      // The sidecar has exited.
      bystander.giveUp();
      livez.giveUp();
    }
  }, MEMORY_INTERVAL_MS);
  return async () => {
    const isServedAfterwards = await bystander.isServed();
    await bystander.stop();
    await livez.stop();
    // The next measurement has the peak of all that was served.
    await sleep(2 * MEMORY_INTERVAL_MS);
    clearInterval(measuringMemory);
    const { gapMs, clockGapMs, unanswered } = livez;
    const { calls, examples } = bystander;
    return { gapMs, clockGapMs, unanswered, peakRssBytes, calls: Object.fromEntries(calls), examples, isServedAfterwards };
  };
}

if (import.meta.main) {
  process.once("disconnect", () => process.exit(0));
  const report = await observe(JSON.parse(process.argv[2] ?? "") as Watched);
  process.once("message", () => void report().then((observation) => process.send?.(observation)));
  process.send?.("watching");
}
