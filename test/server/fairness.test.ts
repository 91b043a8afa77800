import * as fc from "fast-check";
import { expect, it } from "vitest";
import { Semaphore } from "../../src/server/call.ts";
import type { Session } from "../../src/session/session.ts";
import { LaneBench } from "./support/lane-bench.ts";
import { useFakeClock } from "../support/fake-clock.ts";

useFakeClock();

/** More slots than requests. */
const MANY = 100;

/** The number of slots of the server and of a tool, for calls of that tool, other calls, or both. */
interface Slots {
  readonly server: number;
  readonly tool: number;
  readonly calls: "of the tool" | "of others" | "of both";
}

/** Few slots that sessions take turns for. */
interface Turns {
  /** True if a queued request of this number waits for these slots. */
  readonly isAwaitedBy: (number: number) => boolean;
  /** True if a request of this number takes one of them. */
  readonly isTakenBy: (number: number) => boolean;
  /** For each session with such requests: the sessions that were served since. */
  readonly servedSince: Set<number>[];
}

/** Three sessions that share few slots. It records each request that the server gets out of turn. */
class Scene {
  readonly problems: string[] = [];
  readonly #bench: LaneBench;
  readonly #slots: Slots;
  readonly #semaphore: Semaphore;
  readonly #sessions: Session[];
  /** The numbers of the queued requests, by session, in order. */
  readonly #waiting: number[][] = [[], [], []];
  readonly #turns: readonly Turns[];
  /** The requests in flight: their numbers by id. */
  readonly #inFlight = new Map<unknown, number>();
  #lastNumber = 0;

  constructor(slots: Slots) {
    this.#slots = slots;
    this.#semaphore = new Semaphore("tool export", slots.tool);
    const room = { maxHeldRequests: 1000, maxQueuedBytes: 1_000_000, holdTimeoutMs: 500 };
    this.#bench = LaneBench.shared({ ...room, maxInFlight: slots.server });
    this.#sessions = this.#waiting.map(() => this.#bench.join());
    const isLimited = (number: number): boolean => this.#isLimited(number);
    const servedSince = (): Set<number>[] => this.#waiting.map(() => new Set<number>());
    this.#turns = [
      // A call may wait for a slot of its tool alone, so it counts only if there are enough.
      { isAwaitedBy: (number) => slots.tool >= MANY || !isLimited(number), isTakenBy: () => true, servedSince: servedSince() },
      { isAwaitedBy: isLimited, isTakenBy: (number) => slots.tool < MANY && isLimited(number), servedSince: servedSince() },
    ];
    this.#bench.start();
  }

  request(index: number): void {
    const [session, id] = [this.#sessions[index], ++this.#lastNumber];
    if (session === undefined) return;
    this.#waiting[index]?.push(id);
    const terms = this.#isLimited(id) ? { semaphore: this.#semaphore } : {};
    this.#bench.request(session, { id, method: `x/${index}/${id}` }, true, Date.now(), terms);
    this.#hear();
  }

  answer(index: number): void {
    const [id] = [...this.#inFlight.keys()].slice(index % Math.max(1, this.#inFlight.size));
    this.#inFlight.delete(id);
    if (id !== undefined) this.#bench.say({ id, result: {} });
    this.#hear();
  }

  cancelWaiting(index: number): void {
    const [session, waiting] = [this.#sessions[index], this.#waiting[index]];
    const requestId = waiting?.splice(this.#lastNumber % waiting.length, 1)[0];
    if (session === undefined || requestId === undefined) return;
    for (const { isAwaitedBy, servedSince } of this.#turns) if (waiting?.some(isAwaitedBy) !== true) servedSince[index]?.clear();
    this.#bench.notify(session, { method: "notifications/cancelled", params: { requestId } });
    this.#hear();
  }

  restart(): void {
    this.#bench.lose();
    this.#inFlight.clear();
    this.#bench.start();
    this.#hear();
  }

  /** True if the request of this number needs a slot of the tool. */
  #isLimited(number: number): boolean {
    const { calls } = this.#slots;
    return calls === "of the tool" || (calls === "of both" && number % 2 === 0);
  }

  #hear(): void {
    for (const { id, method } of this.#bench.heard()) {
      const [, session, number] = String(method).split("/").map(Number);
      if (session === undefined || number === undefined) continue;
      this.#inFlight.set(id, number);
      const waiting = this.#waiting[session] ?? [];
      const isInOrder = waiting.find((each) => this.#isLimited(each) === this.#isLimited(number)) === number;
      if (!isInOrder) this.problems.push(`request ${number} overtakes another of its session`);
      waiting.splice(waiting.indexOf(number), 1);
      this.#serve(session, number);
    }
    const { server, tool } = this.#slots;
    const toolCount = [...this.#inFlight.values()].filter((number) => this.#isLimited(number)).length;
    if (this.#inFlight.size > server || toolCount > tool) this.problems.push("more requests are in flight than there are slots");
    const canBeSent = this.#waiting.flat().some((number) => toolCount < tool || !this.#isLimited(number));
    if (this.#inFlight.size < server && canBeSent) this.problems.push("a slot is free while a request waits");
  }

  #serve(session: number, number: number): void {
    for (const { isAwaitedBy, isTakenBy, servedSince } of this.#turns) {
      if (!isTakenBy(number)) continue;
      for (const [other, waiting] of this.#waiting.entries()) {
        const since = servedSince[other];
        if (other === session || !waiting.some(isAwaitedBy)) since?.clear();
        else if (since?.has(session) === true) this.problems.push(`session ${session} is served twice while ${other} waits`);
        else since?.add(session);
      }
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

const few = fc.integer({ min: 1, max: 3 });
const MIXES: readonly (readonly [of: string, slots: fc.Arbitrary<Slots>])[] = [
  ["the server", few.map((server) => ({ server, tool: MANY, calls: "of others" }))],
  ["a tool", fc.constant({ server: MANY, tool: 1, calls: "of the tool" })],
  ["the server, for calls with and without a limit of their own,", few.map((server) => ({ server, tool: MANY, calls: "of both" }))],
  ["the server or a tool", few.map((server) => ({ server, tool: 1, calls: "of both" }))],
];

it.each(MIXES)("no session gets two slots of %s while another session waits", (_of, arbitrary) => {
  fc.assert(
    fc.property(arbitrary, fc.array(step, { maxLength: 80, size: "max" }), (slots, steps) => {
      const scene = new Scene(slots);
      for (const each of steps) each(scene);
      expect(scene.problems).toEqual([]);
    }),
    { numRuns: 300 },
  );
});
