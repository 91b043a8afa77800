import { Secrets } from "../../src/observe/redact.ts";
import { Counters } from "../../src/observe/counters.ts";
import { SidecarHandshake } from "../../src/process/handshake.ts";
import { OutputMemory } from "../../src/process/stdio.ts";
import { startProcess } from "../../src/process/child.ts";
import { ReadyTimeout, RestartPolicy, Supervisor } from "../../src/process/supervisor.ts";
import type { UpstreamExit, UpstreamListener } from "../../src/process/port.ts";
import { RecordedLog } from "./recorded-log.ts";
import { MemoryBudget } from "../../src/memory.ts";

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
    this.supervisor = new Supervisor({
      command: { command, args, env: { PATH: process.env["PATH"] ?? "" }, cwd: undefined },
      startProcess,
      limits: { maxLineBytes: 1_000_000, stdinGraceMs: 1000, termGraceMs: 2000 },
      handshake: new SidecarHandshake({ name: "test", version: "1" }),
      readyTimeout: new ReadyTimeout(3000),
      isShared: true,
      restartPolicy: new RestartPolicy({
        firstPauseMs: restartPauseMs,
        longestPauseMs: restartPauseMs,
        crashLoop: { exits: 1000, periodMs: 1 },
        restartLimit: undefined,
        random: () => 0,
      }),
      memory: new OutputMemory(new MemoryBudget(Number.MAX_SAFE_INTEGER)).forServer(),
      counters: this.counters,
      log: this.log,
      secrets: new Secrets({}),
      nowMs: () => performance.now(),
    });
    this.#ended = this.supervisor.run({
      onStarted: (input) => listener.onStarted?.(input),
      onReady: (handshake) => {
        this.#ready.resolve();
        listener.onReady?.(handshake);
      },
      onMessage: (message) => {
        this.messages.push(message.text);
        listener.onMessage?.(message);
      },
      onResponseAfterText: (response) => listener.onResponseAfterText?.(response) === true,
      onInvalidResponse: (...invalid) => listener.onInvalidResponse?.(...invalid),
      onRefused: (response) => listener.onRefused?.(response),
      onOverlongLine: (line) => listener.onOverlongLine?.(line),
      onLost: (exit, unwritten) => {
        this.exits.push(exit);
        listener.onLost?.(exit, unwritten);
      },
      onDefect: () => listener.onDefect?.(),
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
