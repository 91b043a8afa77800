// Starts and controls the process of the observer.

import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { within } from "../bounded.ts";
import type { Message, Observation, Order, Watched } from "../contract.ts";

const START_LIMIT_MS = 30_000;
/** Longer than all waits of the observer together. */
const REPORT_LIMIT_MS = 120_000;

const running = new Set<ChildProcess>();
process.on("exit", () => {
  for (const child of running) child.kill("SIGKILL");
});

/** The observer's process. Use with `using`, so that it is killed. */
export class Observer implements Disposable {
  readonly #child: ChildProcess;

  private constructor(child: ChildProcess) {
    this.#child = child;
    running.add(child);
    child.once("exit", () => running.delete(child));
  }

  /** Starts the observer. Resolves when the bystander has a session and the observation has begun. */
  static async start(watched: Watched): Promise<Observer> {
    const observer = new Observer(fork(join(import.meta.dirname, "main.ts"), { stdio: ["ignore", "ignore", "inherit", "ipc"] }));
    try {
      await observer.#ask({ kind: "watch", watched }, "watching", START_LIMIT_MS);
    } catch (error) {
      observer[Symbol.dispose]();
      throw error;
    }
    return observer;
  }

  async report(): Promise<Observation> {
    const message = await this.#ask({ kind: "report" }, "report", REPORT_LIMIT_MS);
    if (message.kind !== "report") throw new Error("the observer sent an unexpected message");
    return message.report;
  }

  [Symbol.dispose](): void {
    this.#child.kill("SIGKILL");
  }

  async #ask(order: Order, expected: Message["kind"], limitMs: number): Promise<Message> {
    const answered = once(this.#child, "message") as Promise<[Message]>;
    const exited = once(this.#child, "exit").then((): never => {
      throw new Error("the observer exited");
    });
    this.#child.send(order);
    const [message] = (await within(Promise.race([answered, exited]), limitMs)) ?? [];
    if (message?.kind !== expected) throw new Error(`the observer did not answer ${order.kind} in ${limitMs} ms`);
    return message;
  }
}
