// An MCP client of revision 2026-07-28 that sends requests without a pause: several at a time, and no session.

import { setTimeout as sleep } from "node:timers/promises";
import type { Ledger } from "../ledger.ts";
import type { Random } from "../random.ts";
import type { Verdict } from "../tally.ts";
import {
  ASK_SHARE,
  BURST_REQUESTS,
  type ChaosClient,
  LEAVE_SHARE,
  MAX_THINK_MS,
  OTHER_REQUEST_SHARE,
  PAUSE_AFTER_ERROR_MS,
  PAUSE_BEFORE_LISTENING_AGAIN_MS,
  PROGRESS_SHARE,
  SLOW_SHARE,
  TEXTS,
} from "./chaos-client.ts";
import type { Endpoint } from "./spread-exchange.ts";
import { StatelessRequests } from "./stateless-requests.ts";

export interface StatelessLoadClientOptions {
  readonly name: string;
  readonly endpoint: Endpoint;
  readonly ledger: Ledger;
  readonly random: Random;
  /** The number of requests at a time. */
  readonly slots: number;
  /** True if the client can answer questions. */
  readonly answers: boolean;
  /** True if the client keeps a subscription open. */
  readonly listens: boolean;
  readonly onRight: (client: ChaosClient, serverPid: number) => void;
}

export class StatelessLoadClient implements ChaosClient {
  readonly name: string;
  serverPid: number | undefined;
  readonly #options: StatelessLoadClientOptions;
  readonly #requests: StatelessRequests;
  #isStopping = false;
  #slots: Promise<void>[] = [];
  readonly #side = new Set<Promise<unknown>>();

  constructor(options: StatelessLoadClientOptions) {
    this.#options = options;
    this.name = options.name;
    this.#requests = new StatelessRequests(
      options.endpoint,
      options.name,
      options.ledger,
      (serverPid) => {
        this.serverPid = serverPid;
        options.onRight(this, serverPid);
      },
      options.answers ? { elicitation: {} } : {},
    );
  }

  start(): void {
    this.#isStopping = false;
    this.#slots = Array.from({ length: this.#options.slots }, () => this.#work());
    if (this.#options.listens) this.#slots.push(this.#keepListening());
  }

  async stop(): Promise<void> {
    this.#isStopping = true;
    this.#requests.endListens();
    await this.finish();
    this.leave();
  }

  /** A subscription ends with the wrapper. */
  async finish(): Promise<void> {
    this.#isStopping = true;
    await Promise.all([...this.#slots, ...this.#side]);
  }

  leave(): void {
    this.#isStopping = true;
    this.#requests.disconnect();
  }

  provoke(tool: string): boolean {
    this.#aside(this.#requests.call(tool, { text: "Köln 🦀", delayMs: 0, hasProgress: false }));
    return true;
  }

  burst(): boolean {
    for (let index = 0; index < BURST_REQUESTS; index++) {
      this.#aside(this.#requests.call("echo", { text: "burst", delayMs: index % 5, hasProgress: false }));
    }
    return true;
  }

  /** This revision has no replay. */
  comeBack(): boolean {
    return false;
  }

  disconnect(): void {
    this.#requests.disconnect();
  }

  deleteSession(): boolean {
    return false;
  }

  #aside(work: Promise<unknown>): void {
    this.#side.add(work);
    void work.finally(() => this.#side.delete(work));
  }

  async #work(): Promise<void> {
    const { random } = this.#options;
    while (!this.#isStopping) {
      const verdict = await this.#oneRequest();
      await sleep(verdict === "right" ? random.integer(0, MAX_THINK_MS) : PAUSE_AFTER_ERROR_MS);
    }
  }

  async #oneRequest(): Promise<Verdict> {
    const { random, answers } = this.#options;
    if (random.isLucky(OTHER_REQUEST_SHARE)) return this.#requests.ask(random.isLucky(0.5) ? "server/discover" : "tools/list");
    if (answers && random.isLucky(ASK_SHARE)) return this.#requests.callAsking(random.pick(TEXTS) ?? "", random.isLucky(LEAVE_SHARE));
    return this.#requests.call("echo", {
      text: random.pick(TEXTS) ?? "",
      delayMs: random.isLucky(SLOW_SHARE) ? random.integer(50, 400) : random.integer(0, 10),
      hasProgress: random.isLucky(PROGRESS_SHARE),
    });
  }

  async #keepListening(): Promise<void> {
    while (!this.#isStopping) {
      await this.#requests.listen();
      await sleep(PAUSE_BEFORE_LISTENING_AGAIN_MS);
    }
  }
}
