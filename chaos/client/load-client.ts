// An MCP client that sends requests without a pause: several at a time, in one session after another.

import { setTimeout as sleep } from "node:timers/promises";
import type { Ledger } from "../ledger.ts";
import type { Random } from "../random.ts";
import type { Verdict } from "../tally.ts";
import { ASK_TOOL } from "../contract.ts";
import {
  ASK_SHARE,
  BURST_REQUESTS,
  type ChaosClient,
  MAX_THINK_MS,
  OTHER_REQUEST_SHARE,
  PAUSE_AFTER_ERROR_MS,
  PAUSE_BEFORE_LISTENING_AGAIN_MS,
  PROGRESS_SHARE,
  SLOW_SHARE,
  TEXTS,
} from "./chaos-client.ts";
import { type Identity, Session } from "./session.ts";
import type { Endpoint } from "./spread-exchange.ts";

export interface LoadClientOptions {
  readonly endpoint: Endpoint;
  readonly identity: Identity;
  readonly ledger: Ledger;
  readonly random: Random;
  /** The number of requests at a time. */
  readonly slots: number;
  /** True if the client keeps a GET stream open. */
  readonly listens: boolean;
  /** True if the client can answer questions. */
  readonly answers: boolean;
  readonly onRight: (client: ChaosClient, serverPid: number) => void;
}

const COME_BACK_MS = 300;

export class LoadClient implements ChaosClient {
  readonly name: string;
  serverPid: number | undefined;
  readonly #options: LoadClientOptions;
  #session: Promise<Session | undefined> | undefined;
  #current: Session | undefined;
  #isStopping = false;
  #slots: Promise<void>[] = [];
  readonly #side = new Set<Promise<unknown>>();

  constructor(options: LoadClientOptions) {
    this.#options = options;
    this.name = options.identity.name;
  }

  start(): void {
    this.#isStopping = false;
    this.#slots = Array.from({ length: this.#options.slots }, () => this.#work());
  }

  /** Waits for all responses, then ends the session. */
  async stop(): Promise<void> {
    await this.finish();
    await this.#current?.delete();
    this.leave();
  }

  async finish(): Promise<void> {
    this.#isStopping = true;
    await Promise.all([...this.#slots, ...this.#side]);
  }

  leave(): void {
    this.#isStopping = true;
    this.#current?.close();
    this.#current = undefined;
    this.#session = undefined;
  }

  provoke(tool: string): boolean {
    const session = this.#current;
    if (session === undefined || session.isOver) return false;
    this.#aside(session.call(tool, { text: "Köln 🦀", delayMs: 0, hasProgress: false }));
    return true;
  }

  burst(): boolean {
    const session = this.#current;
    if (session === undefined || session.isOver) return false;
    for (let index = 0; index < BURST_REQUESTS; index++) {
      this.#aside(session.call("echo", { text: "burst", delayMs: index % 5, hasProgress: false }));
    }
    return true;
  }

  comeBack(onLostStream: () => void): boolean {
    const session = this.#current;
    if (session === undefined || session.isOver) return false;
    const { answers, random } = this.#options;
    const tool = answers && random.isLucky(0.5) ? ASK_TOOL : "echo";
    this.#aside(session.call(tool, { text: "back again 🦀", delayMs: COME_BACK_MS, hasProgress: true }, onLostStream));
    return true;
  }

  /** The session continues. */
  disconnect(): void {
    this.#current?.disconnect();
  }

  deleteSession(): boolean {
    const session = this.#current;
    if (session === undefined || session.isOver) return false;
    this.#aside(session.delete());
    return true;
  }

  #aside(work: Promise<unknown>): void {
    this.#side.add(work);
    void work.finally(() => this.#side.delete(work));
  }

  async #work(): Promise<void> {
    const { random } = this.#options;
    while (!this.#isStopping) {
      const session = await this.#openSession();
      const verdict = session === undefined ? "error" : await this.#oneRequest(session);
      await sleep(verdict === "right" ? random.integer(0, MAX_THINK_MS) : PAUSE_AFTER_ERROR_MS);
    }
  }

  async #oneRequest(session: Session): Promise<Verdict> {
    const { random, answers } = this.#options;
    if (random.isLucky(OTHER_REQUEST_SHARE)) return session.ask(random.isLucky(0.5) ? "ping" : "tools/list");
    if (answers && random.isLucky(ASK_SHARE))
      return session.call(ASK_TOOL, { text: random.pick(TEXTS) ?? "", delayMs: 0, hasProgress: false });
    return session.call("echo", {
      text: random.pick(TEXTS) ?? "",
      delayMs: random.isLucky(SLOW_SHARE) ? random.integer(50, 400) : random.integer(0, 10),
      hasProgress: random.isLucky(PROGRESS_SHARE),
    });
  }

  /** Returns the session that all slots share, or opens a new one if the last one has ended. */
  async #openSession(): Promise<Session | undefined> {
    if (this.#current?.isOver === true) {
      void this.#current.closeWhenIdle();
      this.#current = undefined;
      this.#session = undefined;
    }
    this.#session ??= this.#open().then((session) => {
      this.#current = session;
      // The next slot that needs a session tries again.
      if (session === undefined) this.#session = undefined;
      return session;
    });
    return this.#session;
  }

  async #open(): Promise<Session | undefined> {
    const { endpoint, identity, ledger, onRight, listens } = this.#options;
    const session = new Session(endpoint, identity, ledger, (serverPid) => {
      this.serverPid = serverPid;
      onRight(this, serverPid);
    });
    if (!(await session.open())) {
      session.close();
      return undefined;
    }
    if (listens) void this.#listen(session);
    return session;
  }

  async #listen(session: Session): Promise<void> {
    while (!this.#isStopping && !session.isOver) {
      await session.listen();
      await sleep(PAUSE_BEFORE_LISTENING_AGAIN_MS);
    }
  }
}
