// A sidecar with its servers, clients and faults, set up in the same way for each kind of run.

import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { MAIN, type Program, type ProgramEnd } from "../bench/program.ts";
import type { Endpoint } from "./client/exchange.ts";
import { type ClientOptions, LEAVE_SHARE, LoadClient } from "./client/load-client.ts";
import { Session } from "./client/session.ts";
import { StatelessRequests } from "./client/stateless.ts";
import { ERA_VARIABLE, type ServerEraOption } from "./contract.ts";
import { Saboteur } from "./faults.ts";
import { figuresOf, Fleet, type ReplicaFigures, worst } from "./fleet.ts";
import { Ledger, RecoveryClock } from "./ledger.ts";
import { Random } from "./random.ts";
import { ServerProcesses } from "./server-processes.ts";

interface Crowd {
  readonly clients: number;
  /** Those that declare capabilities, which need a private server with sessions. */
  readonly privates: number;
  readonly stateless: number;
  /** True if private clients are asked. */
  readonly answers: boolean;
}

const ALONE: Crowd = { clients: 24, privates: 4, stateless: 8, answers: true };
/** Each private client has a server on each replica, and a replica refuses the answer to a question of another one. */
const SPREAD: Crowd = { clients: 12, privates: 2, stateless: 4, answers: false };
const MAX_SLOTS = 4;
/** Only a process that is left reaches it. */
const PROCESS_GRACE_MS = 60_000;
const TOKEN = randomBytes(24).toString("hex");
const SERVER_COMMAND = [process.execPath, join(import.meta.dirname, "server", "main.ts")];

/** Times shorter than the defaults, so that many of them pass within a minute. A start is never cut off, because a busy machine is slow at it. */
const FLAGS = [
  ["--request-timeout-ms", "3000"],
  ["--hold-timeout-ms", "3000"],
  ["--drain-timeout-ms", "3000"],
  ["--restart-backoff-ms", "50"],
  ["--restart-max-ms", "1000"],
  ["--crash-loop-period-ms", "3000"],
  ["--stream-after-ms", "200"],
  ["--replay-max-age-ms", "15000"],
  ["--park-timeout-ms", "1000"],
  ["--max-line-bytes", String(8 * 1024 * 1024)],
].flat();

export interface StageOptions {
  readonly seed: number;
  /** The protocol era of the server. */
  readonly era: ServerEraOption;
  /** The number of processes of the sidecar; by default one. */
  readonly replicas?: number | undefined;
  /** Arguments for the Node of the sidecar. */
  readonly nodeFlags?: readonly string[];
  /** The file for the sidecar's output. By default, it is deleted with the other files. */
  readonly logFile?: string | undefined;
}

export interface StageEnd {
  readonly exit: ProgramEnd;
  readonly processesLeft: number;
  readonly unhandledErrors: readonly string[];
  /** What only several replicas have; undefined for one process. */
  readonly replicas: ReplicaFigures | undefined;
}

/** Use with `await using`, so that no process is left running after an error. */
export class Stage implements AsyncDisposable {
  readonly ledger = new Ledger();
  readonly random: Random;
  readonly fleet: Fleet;
  readonly saboteur: Saboteur;
  readonly #servers: ServerProcesses;
  readonly #clients: readonly LoadClient[];

  private constructor(fleet: Fleet, servers: ServerProcesses, seed: number) {
    this.fleet = fleet;
    this.random = new Random(seed);
    this.#servers = servers;
    const recovery = new RecoveryClock();
    const onRight = (client: LoadClient, pid: number): void => recovery.onRight(client.name, pid);
    const crowd = fleet.wrappers.length > 1 ? SPREAD : ALONE;
    this.#clients = createClients(crowd, fleet.endpoint, this.ledger, this.random.fork(), onRight);
    this.saboteur = new Saboteur(this.#clients, fleet, servers, recovery, this.random.fork());
  }

  static async setUp({ seed, era, replicas = 1, nodeFlags = [], logFile }: StageOptions): Promise<Stage> {
    const servers = new ServerProcesses();
    process.once("exit", () => servers.remove());
    const program: Program = {
      name: "claw",
      token: TOKEN,
      environment: { CLAW_MCP_STDIO_AUTH_TOKEN: TOKEN, [ERA_VARIABLE]: era },
      healthPath: "/readyz",
      nodeArgs: (port) => [...nodeFlags, MAIN, "--addr", `127.0.0.1:${port}`, ...FLAGS, "--", ...SERVER_COMMAND],
    };
    return new Stage(await Fleet.start(program, replicas, servers, logFile), servers, seed);
  }

  startLoad(): void {
    for (const client of this.#clients) client.start();
  }

  /** Waits for the responses to all requests, and ends all sessions. */
  async stopLoad(): Promise<void> {
    await Promise.all(this.#clients.map((client) => client.stop()));
  }

  /** Sends SIGTERM to the sidecar under load, and stops everything. */
  async tearDown(): Promise<StageEnd> {
    this.ledger.markEnding();
    const { wrappers, ends, first } = this.fleet;
    const lastEnds = await Promise.all(wrappers.map((wrapper) => wrapper.end()));
    await Promise.all(this.#clients.map((client) => client.finish()));
    for (const client of this.#clients) client.leave();
    const left = await this.#servers.left(PROCESS_GRACE_MS);
    const unhandledErrors = await first.unhandledErrors();
    const replicas = wrappers.length === 1 ? undefined : figuresOf(this.fleet, this.#servers, this.ledger);
    this.#servers.remove();
    return { exit: worst([...ends, ...lastEnds]), processesLeft: left.length, unhandledErrors, replicas };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const client of this.#clients) client.leave();
    await Promise.all(this.fleet.wrappers.map((wrapper) => wrapper.end()));
    this.#servers.remove();
  }
}

/** Creates clients of both protocol eras. Every second one listens. */
function createClients(
  { clients, privates, stateless, answers }: Crowd,
  endpoint: Endpoint,
  ledger: Ledger,
  random: Random,
  onRight: ClientOptions["onRight"],
): LoadClient[] {
  return Array.from({ length: clients }, (_, index) => {
    const own = random.fork();
    const options = { ledger, random: own, onRight, slots: own.integer(1, MAX_SLOTS), listens: index % 2 === 0 };
    if (index >= clients - stateless) {
      const name = `stateless-${index}`;
      const canAnswer = index % 4 < 2;
      const capabilities = canAnswer ? { elicitation: {} } : {};
      const createCaller: ClientOptions["createCaller"] = (onPid) => new StatelessRequests(endpoint, name, ledger, onPid, capabilities);
      return new LoadClient({ ...options, name, answers: canAnswer, createCaller });
    }
    const isPrivate = index < privates;
    const capabilities = isPrivate ? { elicitation: {}, sampling: {}, roots: { listChanged: true } } : {};
    const identity = { name: `${isPrivate ? "private" : "shared"}-${index}`, capabilities, refuses: () => own.isLucky(LEAVE_SHARE) };
    const createCaller: ClientOptions["createCaller"] = (onPid) => new Session(endpoint, identity, ledger, onPid);
    return new LoadClient({ ...options, name: identity.name, answers: isPrivate && answers, createCaller });
  });
}
