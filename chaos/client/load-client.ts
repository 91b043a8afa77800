// One MCP client that works without a pause: several requests at a time, one session after the other.

import { setTimeout as sleep } from "node:timers/promises";
import type { Ledger, Verdict } from "../ledger.ts";
import type { Random } from "../random.ts";
import { type Endpoint, type Identity, Session } from "./session.ts";

export interface LoadClientOptions {
  readonly endpoint: Endpoint;
  readonly identity: Identity;
  readonly ledger: Ledger;
  readonly random: Random;
  /** Requests at a time. */
  readonly slots: number;
  /** Whether it keeps a GET stream open. */
  readonly listens: boolean;
  readonly onRight: (client: LoadClient, serverPid: number) => void;
}

/** Several bytes a character, so that what cuts characters is found. */
const TEXTS = ["", "plain", "Grüße aus Köln", "日本語のテキスト", "🦀🦞 emoji", 'quotes " and \\ and \n newline', "é".repeat(500)];

const PAUSE_AFTER_ERROR_MS = 50;
const MAX_THINK_MS = 10;
const PAUSE_BEFORE_LISTENING_AGAIN_MS = 100;
const BURST_REQUESTS = 300;
const COME_BACK_MS = 300;
const OTHER_REQUEST_SHARE = 0.1;
const SLOW_SHARE = 0.05;
const PROGRESS_SHARE = 0.1;

export class LoadClient {
  readonly name: string;
  /** The process that gave its last right answer. */
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

  /** Finishes what is running, then ends the session. */
  async stop(): Promise<void> {
    await this.finish();
    await this.#current?.delete();
    this.leave();
  }

  /** Sends nothing more, and waits for the answers. */
  async finish(): Promise<void> {
    this.#isStopping = true;
    await Promise.all([...this.#slots, ...this.#side]);
  }

  /** Goes without a word. */
  leave(): void {
    this.#isStopping = true;
    this.#current?.close();
    this.#current = undefined;
    this.#session = undefined;
  }

  /** One call beside the others, which has something happen. @returns false where there is no session to call in. */
  provoke(tool: string): boolean {
    const session = this.#current;
    if (session === undefined || session.isOver) return false;
    this.#aside(session.call(tool, { text: "Köln 🦀", delayMs: 0, hasProgress: false }));
    return true;
  }

  /** Many requests at once. */
  burst(): boolean {
    const session = this.#current;
    if (session === undefined || session.isOver) return false;
    for (let index = 0; index < BURST_REQUESTS; index++) {
      this.#aside(session.call("echo", { text: "burst", delayMs: index % 5, hasProgress: false }));
    }
    return true;
  }

  /** Loses the stream of a call after its first event, and opens it again for the rest. */
  comeBack(onLostStream: () => void): boolean {
    const session = this.#current;
    if (session === undefined || session.isOver) return false;
    this.#aside(session.call("echo", { text: "back again 🦀", delayMs: COME_BACK_MS, hasProgress: true }, onLostStream));
    return true;
  }

  /** Breaks all its connections; the session goes on. */
  disconnect(): void {
    this.#current?.disconnect();
  }

  /** Ends the session while its requests are running. */
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
    const { random } = this.#options;
    if (random.isLucky(OTHER_REQUEST_SHARE)) return session.ask(random.isLucky(0.5) ? "ping" : "tools/list");
    return session.call("echo", {
      text: random.pick(TEXTS) ?? "",
      delayMs: random.isLucky(SLOW_SHARE) ? random.integer(50, 400) : random.integer(0, 10),
      hasProgress: random.isLucky(PROGRESS_SHARE),
    });
  }

  /** The session of all slots; a new one where the last is over. */
  async #openSession(): Promise<Session | undefined> {
    if (this.#current?.isOver === true) {
      void this.#current.closeWhenIdle();
      this.#current = undefined;
      this.#session = undefined;
    }
    this.#session ??= this.#open().then((session) => {
      this.#current = session;
      // The next slot that needs one tries again.
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
