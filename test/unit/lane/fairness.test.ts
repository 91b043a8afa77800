import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { ToolSemaphore } from "../../../src/lane/queue/tool-semaphore.ts";
import type { Session } from "../../../src/sessions/session.ts";
import { LaneBench } from "../support/lane-bench.ts";
import { useFakeClock } from "../support/fake-clock.ts";

useFakeClock();

type Kind = "the server" | "a tool" | "the server, for calls with and without a limit of their own,";

/** Three sessions that share few slots. It records each request that the server gets out of turn. */
class Scene {
  readonly problems: string[] = [];
  readonly #bench: LaneBench;
  readonly #limit: number;
  readonly #kind: Kind;
  readonly #slots: ToolSemaphore;
  readonly #sessions: Session[];
  /** The numbers of the queued requests, by session, in order. */
  readonly #waiting: number[][] = [[], [], []];
  /** For each session with queued requests: the sessions that were served since. */
  readonly #servedSince = [new Set<number>(), new Set<number>(), new Set<number>()];
  readonly #inFlight: unknown[] = [];
  #lastNumber = 0;

  constructor(kind: Kind, limit: number) {
    this.#kind = kind;
    this.#limit = limit;
    this.#slots = new ToolSemaphore("export", kind === "a tool" ? limit : 100);
    const room = { maxHeldRequests: 1000, maxQueuedBytes: 1_000_000, holdTimeoutMs: 500 };
    this.#bench = LaneBench.shared({ ...room, maxInFlight: kind === "a tool" ? 100 : limit });
    this.#sessions = this.#waiting.map(() => this.#bench.join());
    this.#bench.start();
  }

  request(index: number): void {
    const [session, id] = [this.#sessions[index], ++this.#lastNumber];
    if (session === undefined) return;
    this.#waiting[index]?.push(id);
    const terms = this.#isLimited(id) ? { semaphore: this.#slots } : {};
    this.#bench.request(session, { id, method: `x/${index}/${id}` }, true, Date.now(), terms);
    this.#hear();
  }

  answer(index: number): void {
    const [id] = this.#inFlight.splice(index % Math.max(1, this.#inFlight.length), 1);
    if (id !== undefined) this.#bench.say({ id, result: {} });
    this.#hear();
  }

  cancelWaiting(index: number): void {
    const [session, waiting] = [this.#sessions[index], this.#waiting[index]];
    const requestId = waiting?.splice(this.#lastNumber % waiting.length, 1)[0];
    if (session === undefined || requestId === undefined) return;
    if (waiting?.length === 0) this.#servedSince[index]?.clear();
    this.#bench.notify(session, { method: "notifications/cancelled", params: { requestId } });
    this.#hear();
  }

  restart(): void {
    this.#bench.lose();
    this.#inFlight.length = 0;
    this.#bench.start();
    this.#hear();
  }

  /** True if the request of this number needs a slot of the tool. */
  #isLimited(number: number): boolean {
    return this.#kind === "a tool" || (this.#kind !== "the server" && number % 2 === 0);
  }

  #hear(): void {
    for (const { id, method } of this.#bench.heard()) {
      const [, session, number] = String(method).split("/").map(Number);
      if (session === undefined || number === undefined) continue;
      this.#inFlight.push(id);
      const waiting = this.#waiting[session] ?? [];
      const isInOrder = waiting.find((each) => this.#isLimited(each) === this.#isLimited(number)) === number;
      if (!isInOrder) this.problems.push(`request ${number} overtakes another of its session`);
      waiting.splice(waiting.indexOf(number), 1);
      this.#serve(session);
    }
    if (this.#inFlight.length > this.#limit) this.problems.push("more requests are in flight than there are slots");
    const hasFreeSlot = this.#inFlight.length < this.#limit;
    if (hasFreeSlot && this.#waiting.some((waiting) => waiting.length > 0)) this.problems.push("a slot is free while a request waits");
  }

  #serve(session: number): void {
    for (const [other, waiting] of this.#waiting.entries()) {
      const servedSince = this.#servedSince[other];
      if (other === session || waiting.length === 0) servedSince?.clear();
      else if (servedSince?.has(session) === true) this.problems.push(`session ${session} is served twice while ${other} waits`);
      if (other !== session && waiting.length > 0) servedSince?.add(session);
    }
  }
}

const session = fc.nat({ max: 2 });
const step = fc.oneof(
  { weight: 6, arbitrary: session.map((index) => (scene: Scene) => scene.request(index)) },
  { weight: 4, arbitrary: session.map((index) => (scene: Scene) => scene.answer(index)) },
  { weight: 2, arbitrary: session.map((index) => (scene: Scene) => scene.cancelWaiting(index)) },
  { weight: 1, arbitrary: fc.constant((scene: Scene) => scene.restart()) },
);

describe("fairness", () => {
  it.each<Kind>(["the server", "a tool", "the server, for calls with and without a limit of their own,"])(
    "no session gets two slots of %s while another session waits",
    (kind) => {
      const limit = kind === "a tool" ? fc.constant(1) : fc.integer({ min: 1, max: 3 });
      fc.assert(
        fc.property(limit, fc.array(step, { maxLength: 80, size: "max" }), (slots, steps) => {
          const scene = new Scene(kind, slots);
          for (const each of steps) each(scene);
          expect(scene.problems).toEqual([]);
        }),
        { numRuns: 300 },
      );
    },
  );
});
