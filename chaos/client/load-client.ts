// The clients under load. Each sends requests without a pause, several at a time: in one session after another, or without a session.

import { setTimeout as sleep } from "node:timers/promises";
import { ASK_TOOL } from "../contract.ts";
import type { Verdict } from "../ledger.ts";
import type { Random } from "../random.ts";
import type { Caller } from "./caller.ts";

export interface ClientOptions {
  readonly name: string;
  readonly random: Random;
  readonly slots: number;
  /** True if the client keeps a stream or a subscription open. */
  readonly listens: boolean;
  /** True if the client can answer questions. */
  readonly answers: boolean;
  readonly createCaller: (onRight: (serverPid: number) => void) => Caller;
  readonly onRight: (client: LoadClient, serverPid: number) => void;
}

/** Texts with multi-byte characters, which detect a split within a character. */
const TEXTS = ["", "plain", "Grüße aus Köln", "日本語のテキスト", "🦀🦞 emoji", 'quotes " and \\ and \n newline', "é".repeat(500)];
const PAUSE_AFTER_ERROR_MS = 50;
const MAX_THINK_MS = 10;
const PAUSE_BEFORE_LISTENING_AGAIN_MS = 100;
const BURST_REQUESTS = 300;
const COME_BACK_MS = 300;
const OTHER_REQUEST_SHARE = 0.1;
const SLOW_SHARE = 0.05;
const PROGRESS_SHARE = 0.1;
/** The share of calls that ask, of a client that can answer, and the share of their questions that it does not answer. */
const ASK_SHARE = 0.1;
export const LEAVE_SHARE = 0.1;

export class LoadClient {
  readonly name: string;
  /** The process that sent the last right response. */
  serverPid: number | undefined;
  readonly #options: ClientOptions;
  #opening: Promise<Caller | undefined> | undefined;
  #caller: Caller | undefined;
  #isStopping = false;
  #slots: Promise<void>[] = [];
  readonly #side = new Set<Promise<unknown>>();

  constructor(options: ClientOptions) {
    this.#options = options;
    this.name = options.name;
  }

  start(): void {
    this.#isStopping = false;
    this.#slots = Array.from({ length: this.#options.slots }, () => this.#work());
  }

  /** Waits for all responses, then leaves. */
  async stop(): Promise<void> {
    this.#isStopping = true;
    this.#caller?.endListens();
    await this.finish();
    await this.#caller?.delete();
    this.leave();
  }

  /** Sends no further requests, and waits for all responses. */
  async finish(): Promise<void> {
    this.#isStopping = true;
    await Promise.all(this.#slots);
    // Side work may begin more of it.
    while (this.#side.size > 0) await Promise.all(this.#side);
  }

  /** Closes all connections. */
  leave(): void {
    this.#isStopping = true;
    this.#caller?.close();
    this.#caller = undefined;
    this.#opening = undefined;
  }

  /** Calls a tool that causes a fault, in addition to the load. @returns false if the client cannot. */
  provoke(tool: string): boolean {
    return this.#aside((caller) => caller.call(tool, { text: "Köln 🦀", delayMs: 0, hasProgress: false }));
  }

  /** Sends many requests at once. @returns false if the client cannot. */
  burst(): boolean {
    const echo = (caller: Caller, index: number): Promise<unknown> =>
      caller.call("echo", { text: "burst", delayMs: index % 5, hasProgress: false });
    return this.#aside((caller) => Promise.all(Array.from({ length: BURST_REQUESTS }, (_, index) => echo(caller, index))));
  }

  /** Breaks the stream of a call after its first event, and resumes it. @returns false without a session, which has no replay. */
  comeBack(onLostStream: () => void): boolean {
    if (this.#caller?.isStateless === true) return false;
    const { answers, random } = this.#options;
    const tool = answers && random.isLucky(0.5) ? ASK_TOOL : "echo";
    return this.#aside((caller) => caller.call(tool, { text: "back again 🦀", delayMs: COME_BACK_MS, hasProgress: true }, onLostStream));
  }

  /** Breaks all connections. A session continues. */
  disconnect(): void {
    this.#caller?.disconnect();
  }

  /** Ends the session while its requests are in flight. @returns false without a session. */
  deleteSession(): boolean {
    return this.#caller?.isStateless !== true && this.#aside((caller) => caller.delete());
  }

  /** Does something besides the load. @returns false if the client has no session. */
  #aside(act: (caller: Caller) => Promise<unknown>): boolean {
    const caller = this.#caller;
    if (caller === undefined || caller.isOver) return false;
    this.#track(act(caller));
    return true;
  }

  #track(work: Promise<unknown>): void {
    this.#side.add(work);
    void work.finally(() => this.#side.delete(work));
  }

  async #work(): Promise<void> {
    const { random } = this.#options;
    while (!this.#isStopping) {
      const caller = await this.#openCaller();
      const verdict = caller === undefined ? "error" : await this.#oneRequest(caller);
      await sleep(verdict === "right" ? random.integer(0, MAX_THINK_MS) : PAUSE_AFTER_ERROR_MS);
    }
  }

  async #oneRequest(caller: Caller): Promise<Verdict> {
    const { random, answers } = this.#options;
    if (random.isLucky(OTHER_REQUEST_SHARE)) return caller.ask(random.isLucky(0.5));
    if (answers && random.isLucky(ASK_SHARE)) return caller.callAsking(random.pick(TEXTS) ?? "", random.isLucky(LEAVE_SHARE));
    return caller.call("echo", {
      text: random.pick(TEXTS) ?? "",
      delayMs: random.isLucky(SLOW_SHARE) ? random.integer(50, 400) : random.integer(0, 10),
      hasProgress: random.isLucky(PROGRESS_SHARE),
    });
  }

  async #openCaller(): Promise<Caller | undefined> {
    if (this.#caller?.isOver === true) {
      void this.#caller.closeWhenIdle();
      this.#caller = undefined;
      this.#opening = undefined;
    }
    this.#opening ??= this.#open().then((caller) => {
      this.#caller = caller;
      // The next slot that needs a session tries again.
      if (caller === undefined) this.#opening = undefined;
      return caller;
    });
    return this.#opening;
  }

  async #open(): Promise<Caller | undefined> {
    const { createCaller, onRight, listens } = this.#options;
    const caller = createCaller((serverPid) => {
      this.serverPid = serverPid;
      onRight(this, serverPid);
    });
    if (!(await caller.open())) {
      caller.close();
      return undefined;
    }
    const listening = listens ? this.#listen(caller) : undefined;
    // A subscription is a request, which is accounted for.
    if (listening !== undefined && caller.isStateless) this.#track(listening);
    return caller;
  }

  async #listen(caller: Caller): Promise<void> {
    while (!this.#isStopping && !caller.isOver) {
      await caller.listen();
      await sleep(PAUSE_BEFORE_LISTENING_AGAIN_MS);
    }
  }
}
