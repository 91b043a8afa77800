import { Counters } from "../../src/observe/record.ts";
import { initializeAttempt, INITIALIZED } from "../../src/process/handshake.ts";
import { ServerProgram } from "../../src/process/generation.ts";
import { Supervisor } from "../../src/process/supervisor.ts";
import type { UpstreamExit, UpstreamListener } from "../../src/process/port.ts";
import { RecordedLog, contextOf } from "./context.ts";

const EVENTS = ["onStarted", "onReady", "onRefused", "onMessage", "onInvalidResponse", "onResponseAfterText", "onOverlongLine"];
export const IGNORES_ALL = Object.fromEntries(
  [...EVENTS, "onLost", "onDefect"].map((event) => [event, () => undefined]),
) as unknown as UpstreamListener;

/** A real server under a supervisor in this process, without lanes or HTTP. Always stop it. */
export class Supervised implements AsyncDisposable {
  readonly counters = new Counters();
  readonly log = new RecordedLog();
  readonly exits: UpstreamExit[] = [];
  readonly messages: string[] = [];
  readonly supervisor: Supervisor;
  readonly #ended: Promise<unknown>;
  #ready = Promise.withResolvers<void>();

  /** @param listener is called after the records are made. */
  constructor(command: string, args: readonly string[], restartPauseMs: number, listener: Partial<UpstreamListener> = {}) {
    const context = contextOf(
      {
        readyTimeoutMs: 3000,
        maxLineBytes: 1_000_000,
        restartBackoffMs: restartPauseMs,
        restartMaxMs: restartPauseMs,
        crashLoopExits: 1000,
        crashLoopPeriodMs: 1,
      },
      { counters: this.counters, log: this.log, nowMs: () => performance.now() },
    );
    this.supervisor = new Supervisor(
      context,
      new ServerProgram(context, { command, args, env: { PATH: process.env["PATH"] ?? "" }, cwd: undefined }),
      { first: initializeAttempt({ name: "test", version: "1" }), initialized: INITIALIZED },
    );
    this.#ended = this.supervisor.run({
      ...IGNORES_ALL,
      ...listener,
      onReady: (handshake) => {
        this.#ready.resolve();
        listener.onReady?.(handshake);
      },
      onMessage: (message) => {
        this.messages.push(message.text);
        listener.onMessage?.(message);
      },
      onLost: (exit, unwritten) => {
        this.exits.push(exit);
        listener.onLost?.(exit, unwritten);
      },
    });
  }

  /** Waits until the next generation is ready. Each one counts once. */
  async nextReady(): Promise<void> {
    await this.#ready.promise;
    this.#ready = Promise.withResolvers();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.supervisor.stop();
    await this.#ended;
  }
}
