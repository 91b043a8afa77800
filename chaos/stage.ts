// A sidecar with its servers, clients and faults, set up in the same way for each kind of run.

import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { MAIN, type ProgramEnd, ProgramProcess } from "../bench/program.ts";
import { ASKABLE } from "../test/support/mcp-client.ts";
import { ModernClient } from "../test/support/modern-client.ts";
import { type ClientOptions, LEAVE_SHARE, LoadClient } from "./client/load-client.ts";
import { Session } from "./client/session.ts";
import { StatelessRequests } from "./client/stateless.ts";
import { DIRECTORY_VARIABLE, ERA_VARIABLE, type ServerEraOption } from "./contract.ts";
import { Saboteur } from "./faults.ts";
import { Ledger, RecoveryClock } from "./ledger.ts";
import { Random } from "./random.ts";
import { ServerProcesses } from "./server-processes.ts";

/** The clients: those that declare capabilities come first, those without a session last. */
const CLIENTS = 24;
const PRIVATE_CLIENTS = 4;
const STATELESS_CLIENTS = 8;
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
  readonly era: ServerEraOption;
  /** The file for the sidecar's output. By default, it is deleted with the other files. */
  readonly logFile?: string | undefined;
  /** The sidecar's inspector listens on it. */
  readonly inspectorPort?: number | undefined;
}

export interface StageEnd {
  readonly exit: ProgramEnd;
  readonly processesLeft: number;
  readonly unhandledErrors: readonly string[];
  readonly executedTwice: readonly string[];
}

/** Use with `await using`, so that no process is left running after an error. */
export class Stage implements AsyncDisposable {
  readonly ledger = new Ledger();
  readonly random: Random;
  readonly sidecar: ProgramProcess;
  readonly saboteur: Saboteur;
  readonly #servers: ServerProcesses;
  readonly #clients: readonly LoadClient[];

  private constructor(sidecar: ProgramProcess, servers: ServerProcesses, seed: number) {
    this.sidecar = sidecar;
    this.random = new Random(seed);
    this.#servers = servers;
    const recovery = new RecoveryClock();
    const onRight = (client: LoadClient, pid: number): void => recovery.onRight(client.name, pid);
    this.#clients = createClients(sidecar.url, this.ledger, this.random.fork(), onRight);
    this.saboteur = new Saboteur(this.#clients, servers, recovery, this.random.fork());
  }

  static async setUp({ seed, era, logFile, inspectorPort }: StageOptions): Promise<Stage> {
    const servers = new ServerProcesses();
    const { directory } = servers;
    process.once("exit", () => servers.remove());
    // With the second flag, the sidecar does not start Node again, which would end the inspector.
    const nodeFlags = inspectorPort === undefined ? [] : [`--inspect=127.0.0.1:${inspectorPort}`, "--max-semi-space-size=8"];
    const program = {
      name: "claw",
      token: TOKEN,
      environment: { CLAW_MCP_STDIO_AUTH_TOKEN: TOKEN, [ERA_VARIABLE]: era, [DIRECTORY_VARIABLE]: directory },
      healthPath: "/readyz",
      nodeArgs: (port: number) => [...nodeFlags, MAIN, "--addr", `127.0.0.1:${port}`, ...FLAGS, "--", ...SERVER_COMMAND],
    };
    return new Stage(await ProgramProcess.start(program, logFile ?? join(directory, "sidecar.log")), servers, seed);
  }

  startLoad(): void {
    for (const client of this.#clients) client.start();
  }

  async stopLoad(): Promise<void> {
    await Promise.all(this.#clients.map((client) => client.stop()));
  }

  /** Sends SIGTERM to the sidecar under load, and stops everything. */
  async tearDown(): Promise<StageEnd> {
    this.ledger.markEnding();
    const exit = await this.sidecar.end();
    await Promise.all(this.#clients.map((client) => client.finish()));
    for (const client of this.#clients) client.leave();
    const left = await this.#servers.left(PROCESS_GRACE_MS);
    const unhandledErrors = await this.sidecar.unhandledErrors();
    const executedTwice = this.#servers.repeatedCalls();
    this.#servers.remove();
    return { exit, processesLeft: left.length, unhandledErrors, executedTwice };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const client of this.#clients) client.leave();
    await this.sidecar.end();
    this.#servers.remove();
  }
}

/** Creates clients of both protocol eras. Every second one listens. */
function createClients(url: string, ledger: Ledger, random: Random, onRight: ClientOptions["onRight"]): LoadClient[] {
  return Array.from({ length: CLIENTS }, (_, index) => {
    const own = random.fork();
    const options = { random: own, onRight, slots: own.integer(1, MAX_SLOTS), listens: index % 2 === 0 };
    if (index >= CLIENTS - STATELESS_CLIENTS) {
      const name = `stateless-${index}`;
      const answers = index % 4 < 2;
      const client = new ModernClient(url, { token: TOKEN, capabilities: answers ? { elicitation: {} } : {} });
      return new LoadClient({
        ...options,
        name,
        answers,
        createCaller: (onPid) => new StatelessRequests(url, name, client, ledger, onPid),
      });
    }
    const answers = index < PRIVATE_CLIENTS;
    const name = `${answers ? "private" : "shared"}-${index}`;
    const identity = { name, token: TOKEN, capabilities: answers ? ASKABLE : {}, refuses: () => own.isLucky(LEAVE_SHARE) };
    return new LoadClient({ ...options, name, answers, createCaller: (onPid) => new Session(url, identity, ledger, onPid) });
  });
}
