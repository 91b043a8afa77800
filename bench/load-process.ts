// The process that calls the targets. Its only argument is a `Load` as JSON, and its output the result, so that nothing else takes its time.

import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { performance } from "node:perf_hooks";
import { setTimeout as sleep } from "node:timers/promises";
import type { Headers } from "../test/support/http-client.ts";
import { McpClient } from "../test/support/mcp-client.ts";
import { headBytes } from "../test/support/raw-connection.ts";
import { ModernClient } from "../test/support/modern-client.ts";
import { HttpConnection, type HttpResponse, type Outcome } from "./http-connection.ts";
import { memoryBytes, treeCpuMs } from "./proc.ts";
import { median, percentile, sum } from "./statistics.ts";

export interface Side {
  readonly port: number;
  readonly token: string | undefined;
  readonly pid: number;
}

export interface Calls {
  readonly title: string;
  readonly connections: number;
  readonly resultBytes: number;
  readonly isStateless?: boolean;
}

/** All targets have the same load process and take turns, so that a slow moment of the machine affects all of them. */
export type Load = { readonly sides: readonly Side[]; readonly seconds: number } & (
  | { readonly kind: "calls"; readonly calls: Calls }
  /** Calls with this number of progress notifications, one call at a time. */
  | { readonly kind: "progress"; readonly notifications: number }
  /** Sessions with an idle stream each. */
  | { readonly kind: "streams"; readonly streams: number }
);

/** What was measured at one side, by title. */
export type Measured = Readonly<Record<string, number>>;
export interface LoadResult {
  readonly measured: readonly Measured[];
  /** The first error of each side that had one. */
  readonly errors: readonly string[];
}

type Post = (id: number) => string;

const TURN_MS = 1000;
const WARM_UP_MS = 1000;
const MAX_ERRORS = 100;
/** Longer than any response takes. */
const LATE_MS = 15_000;
/** A response has its id near its beginning or its end. */
const ID_WITHIN_BYTES = 400;
const SETTLE_MS = 1000;

const errors: string[] = [];

async function runCalls(sides: readonly Side[], calls: Calls, seconds: number): Promise<Measured[]> {
  const players = await Promise.all(sides.map((side) => Player.open(side, calls)));
  for (const player of players) await player.play(WARM_UP_MS);
  for (let turn = 0; turn < seconds; turn++) {
    // Another one begins each time, so that none of them always comes after the same one.
    const first = turn % players.length;
    for (const player of [...players.slice(first), ...players.slice(0, first)]) await player.takeTurn();
  }
  for (const player of players) await player.close();
  return players.map((player) => player.summary());
}

/** Keeps one call in flight on each connection to one side. */
class Player {
  readonly #side: Side;
  readonly #calls: Calls;
  /** Undefined for calls without a session. */
  readonly #client: McpClient | undefined;
  readonly #post: Post;
  readonly #turns: { readonly perSecond: number; readonly p50Ms: number; readonly p99Ms: number; readonly cpuMs: number }[] = [];
  #lastId = 0;
  #errors = 0;
  #latenciesMs: number[] = [];

  private constructor(side: Side, calls: Calls, client: McpClient | undefined, post: Post) {
    this.#side = side;
    this.#calls = calls;
    this.#client = client;
    this.#post = post;
  }

  static async open(side: Side, calls: Calls): Promise<Player> {
    const args = { bytes: calls.resultBytes };
    if (calls.isStateless === true) {
      const modern = new ModernClient(urlOf(side), { token: side.token });
      const { body, headers } = modern.compose("tools/call", { name: "echo", arguments: args }, { id: 0 });
      return new Player(side, calls, undefined, postOf(side, headers, body));
    }
    const client = await openSession(side);
    return new Player(side, calls, client, postOf(side, client.postHeaders(), toolCall({ name: "echo", arguments: args })));
  }

  async takeTurn(): Promise<void> {
    const cpuBeforeMs = treeCpuMs(this.#side.pid);
    await this.play(TURN_MS);
    const sorted = this.#latenciesMs.toSorted((a, b) => a - b);
    this.#turns.push({
      perSecond: (sorted.length * 1000) / TURN_MS,
      p50Ms: percentile(sorted, 50),
      p99Ms: percentile(sorted, 99),
      cpuMs: (treeCpuMs(this.#side.pid) - cpuBeforeMs) / sorted.length,
    });
  }

  /** Calls until the time is over. Resolves after the last response. */
  async play(durationMs: number): Promise<void> {
    this.#latenciesMs = [];
    const untilMs = performance.now() + durationMs;
    const errorsBefore = this.#errors;
    // A target may close connections that are idle during the turns of others.
    const connections = Array.from({ length: this.#calls.connections }, () => new HttpConnection(this.#side.port));
    const driven = connections.map((connection) => new Promise<void>((resolve) => this.#callNext(connection, untilMs, resolve)));
    const isLate = await Promise.race([Promise.all(driven).then(() => false), sleep(durationMs + LATE_MS, true, { ref: false })]);
    for (const connection of connections) connection.close();
    if (isLate) this.#countError("calls without a response");
    if (this.#errors > errorsBefore + MAX_ERRORS) throw new Error(errors[0]);
  }

  summary(): Measured {
    return {
      "calls/s": sum(this.#turns.map(({ perSecond }) => perSecond)) / this.#turns.length,
      "p50 ms": median(this.#turns.map(({ p50Ms }) => p50Ms)),
      "p99 ms": median(this.#turns.map(({ p99Ms }) => p99Ms)),
      "CPU ms of a call": median(this.#turns.map(({ cpuMs }) => cpuMs)),
      errors: this.#errors,
    };
  }

  async close(): Promise<void> {
    await this.#client?.end();
  }

  #callNext(connection: HttpConnection, untilMs: number, onEnd: () => void): void {
    // Ids are unique on all connections, because some targets distinguish calls of a session only by id.
    const id = ++this.#lastId;
    const sentAtMs = performance.now();
    connection.request(this.#post(id), (outcome) => {
      const nowMs = performance.now();
      const fault = faultOf(outcome, id, this.#calls);
      if (fault !== undefined) this.#countError(fault);
      else if (nowMs < untilMs) this.#latenciesMs.push(nowMs - sentAtMs);
      if (nowMs >= untilMs || this.#errors > MAX_ERRORS || outcome instanceof Error) onEnd();
      else this.#callNext(connection, untilMs, onEnd);
    });
  }

  #countError(fault: string): void {
    if (this.#errors === 0) errors.push(fault);
    this.#errors++;
  }
}

async function runProgress(side: Side, notifications: number, seconds: number): Promise<Measured> {
  const client = await openSession(side);
  const connection = new HttpConnection(side.port);
  const rates: number[] = [];
  const losses: number[] = [];
  const untilMs = performance.now() + WARM_UP_MS / 2 + seconds * 1000;
  // At least one call is measured, even if it is slow.
  for (let id = 1; performance.now() < untilMs || rates.length === 0; id++) {
    const params = { name: "progress", arguments: { count: notifications }, _meta: { progressToken: `of-${id}` } };
    const startedAtMs = performance.now();
    const { body } = await connection.reply(postOf(side, client.postHeaders(), toolCall(params))(id));
    const elapsedMs = performance.now() - startedAtMs;
    if (!hasId(body, id)) throw new Error(`no answer to ${id}: ${excerpt(body)}`);
    const arrived = countProgress(body.toString("latin1"), id);
    // The first call is the warm-up.
    if (id > 1) {
      rates.push((arrived * 1000) / elapsedMs);
      losses.push(notifications - arrived);
    }
  }
  connection.close();
  await client.end();
  return { "notifications/s": median(rates), "lost of a call": median(losses) };
}

/** Counts the notifications of a call. @throws unless they are its own, and in order. */
function countProgress(text: string, id: number): number {
  let last = 0;
  let arrived = 0;
  for (const [, progress] of text.matchAll(/"progress":(\d+)/g)) {
    if (Number(progress) <= last) throw new Error(`progress ${progress} after ${last}`);
    last = Number(progress);
    arrived++;
  }
  if (text.split(`"progressToken":"of-${id}"`).length - 1 !== arrived) throw new Error("progress notifications with another token");
  return arrived;
}

async function runStreams(side: Side, count: number): Promise<Measured> {
  const beforeBytes = memoryBytes(side.pid, "VmRSS");
  const streams: Socket[] = [];
  for (let opened = 0; opened < count; opened++) {
    const client = await openSession(side);
    const stream = connect(side.port, "127.0.0.1");
    stream.write(headBytes("GET /mcp", { ...client.getHeaders(), Host: `127.0.0.1:${side.port}` }), "latin1");
    await once(stream, "data");
    streams.push(stream);
  }
  await sleep(SETTLE_MS);
  const openBytes = memoryBytes(side.pid, "VmRSS");
  for (const stream of streams) stream.destroy();
  return { "KB of a stream": (openBytes - beforeBytes) / 1000 / count };
}

/** Opens a session, and lists the tools as most clients do. */
async function openSession(side: Side): Promise<McpClient> {
  const client = await new McpClient(urlOf(side), { token: side.token, sendsVersion: true }).open();
  // The metrics of the sidecar distinguish listed tools only.
  await client.request("tools/list");
  return client;
}

function urlOf({ port }: Side): string {
  return `http://127.0.0.1:${port}/mcp`;
}

/** @param template the body with the id 0. It is ASCII, so that its length is its size. */
function postOf({ port }: Side, headers: Headers, template: string): Post {
  const start = headBytes("POST /mcp", { ...headers, Host: `127.0.0.1:${port}` }).slice(0, -2);
  return (id) => {
    const body = template.replace('"id":0', `"id":${id}`);
    return `${start}Content-Length: ${body.length}\r\n\r\n${body}`;
  };
}

function toolCall(params: object): string {
  return JSON.stringify({ jsonrpc: "2.0", id: 0, method: "tools/call", params });
}

/**
 * Returns what is wrong with a response. It compares bytes instead of parsing, because parsing 1 MB per response would make the load process
 * the bottleneck.
 */
function faultOf(outcome: Outcome, id: number, { resultBytes }: Calls): string | undefined {
  if (outcome instanceof Error) return outcome.message;
  const { status, body }: HttpResponse = outcome;
  const textAt = body.indexOf('"text":"');
  if (status !== 200 || textAt === -1) return `status ${status}: ${excerpt(body)}`;
  if (!hasId(body, id)) return `answer to another request than ${id}: ${excerpt(body)}`;
  // A plain text has no quotes, so the next quote ends it.
  const start = textAt + '"text":"'.length;
  const bytes = body.indexOf('"', start) - start;
  return bytes === resultBytes ? undefined : `result of ${bytes} bytes`;
}

function hasId(body: Buffer, id: number): boolean {
  const ends = [body.subarray(0, ID_WITHIN_BYTES), body.subarray(-ID_WITHIN_BYTES)];
  return ends.some((part) => part.includes(`"id":${id},`) || part.includes(`"id":${id}}`));
}

function excerpt(body: Buffer): string {
  return body.toString("utf8", 0, 200);
}

const load = JSON.parse(process.argv[2] ?? "") as Load;
const measured: Measured[] = [];
if (load.kind === "calls") measured.push(...(await runCalls(load.sides, load.calls, load.seconds)));
else if (load.kind === "progress") for (const side of load.sides) measured.push(await runProgress(side, load.notifications, load.seconds));
else for (const side of load.sides) measured.push(await runStreams(side, load.streams));
process.stdout.write(`${JSON.stringify({ measured, errors } satisfies LoadResult)}\n`);
// Calls that were given up may be in flight.
process.exit(0);
