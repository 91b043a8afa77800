import * as fc from "fast-check";
import { describe, expect, it, vi } from "vitest";
import { Semaphore } from "../../src/server/slots.ts";
import type { Config } from "../../src/config/load.ts";
import type { Session } from "../../src/session/session.ts";
import { LaneBench, requestOfClient } from "./support/lane-bench.ts";
import { ACCOUNT } from "./support/memory.ts";
import { RecordedReply } from "./support/recorded-reply.ts";
import { useFakeClock } from "../support/fake-clock.ts";

const LIMITS: Partial<Config> = {
  maxInFlight: 2,
  maxHeldRequests: 5,
  maxSessionRequests: 4,
  maxQueuedBytes: 1000,
  requestTimeoutMs: 700,
  holdTimeoutMs: 500,
};

interface Counts {
  readonly requests: { readonly accepted: number; readonly held: number; readonly refused: Record<string, number> };
  readonly answers: Record<"results" | "errors" | "dismissed" | "unread", number> & { readonly failures: Record<string, number> };
}

/** A lane with three sessions, all responses of its clients, and all messages that its server has read. */
class Scene {
  readonly bench = LaneBench.shared(LIMITS);
  readonly sessions: Session[] = [];
  /** Calls of two tools. */
  readonly slots = [new Semaphore("tool 0", 1), new Semaphore("tool 1", 2)];
  readonly replies: RecordedReply[] = [];
  readonly left = new Set<RecordedReply>();
  /** The messages of each session that the server has read, in order. */
  readonly heard = new Map<string, number[]>();
  /** The requests that it has not answered, by id. */
  readonly asked = new Map<unknown, string>();
  #lastNumber = 0;

  constructor() {
    for (let count = 0; count < 3; count++) this.sessions.push(this.bench.join());
  }

  session(index: number): Session {
    const session = this.sessions[index % this.sessions.length];
    if (session === undefined) throw new Error("there is always one");
    return session;
  }

  /** The method names the session, and the order of its requests. */
  methodOf({ id }: Session, line = ""): string {
    return `x/${id}${line}/${++this.#lastNumber}`;
  }

  /** A request with few slots, and its own time limit. */
  requestLimited(index: number): void {
    const session = this.session(index);
    const tool = index % this.slots.length;
    const slots = this.slots[tool];
    const message = { id: ++this.#lastNumber, method: this.methodOf(session, `#${tool}`) };
    const terms = slots === undefined ? {} : { semaphore: slots, timeoutMs: 100 + 40 * index };
    this.replies.push(this.bench.request(session, message, true, Date.now(), terms));
  }

  /** Returns the number of unanswered calls of a tool. */
  countAsked(tool: number): number {
    return [...this.asked.values()].filter((method) => method.includes(`#${tool}/`)).length;
  }

  request(index: number, method?: string, params = {}): void {
    const session = this.session(index);
    this.replies.push(this.bench.request(session, { id: ++this.#lastNumber, method: method ?? this.methodOf(session), params }));
  }

  initialize(): void {
    const request = requestOfClient({ id: ++this.#lastNumber, method: "initialize", params: {} });
    const reply = new RecordedReply(this.bench.context, String(this.#lastNumber), Date.now());
    this.replies.push(reply);
    this.bench.lane.initialize({
      reply,
      request,
      memory: ACCOUNT,
      open: () => undefined,
      onRefused: () => undefined,
      onFailed: () => undefined,
    });
  }

  cancel(index: number): void {
    const reply = this.replies[index % Math.max(1, this.replies.length)];
    if (reply === undefined) return;
    for (const session of this.sessions) {
      this.bench.notify(session, { method: "notifications/cancelled", params: { requestId: Number(reply.idText) } });
    }
  }

  leave(index: number): void {
    const reply = this.replies[index % Math.max(1, this.replies.length)];
    if (reply === undefined || reply.isFinished || this.left.has(reply)) return;
    this.left.add(reply);
    reply.disconnect();
  }

  answer(answer: { readonly result: object } | { readonly error: { readonly code: number } } | "too long"): void {
    const [id] = this.asked.keys();
    if (id === undefined) return;
    this.asked.delete(id);
    if (answer === "too long")
      this.bench.lane.onOverlongLine({
        kind: "overlong",
        bytes: 2000,
        idText: JSON.stringify(id),
        hasMethod: false,
        isForMemory: false,
      });
    else this.bench.say({ id, ...answer });
  }

  endSession(index: number): void {
    const session = this.session(index);
    this.bench.lane.endCaller(session);
    this.sessions[this.sessions.indexOf(session)] = this.bench.join();
  }

  restart(): void {
    this.bench.lose();
    this.bench.upstream.isReading = true;
    this.asked.clear();
    this.bench.start();
  }

  /** The server reads the lines that were sent. */
  listen(): void {
    for (const { id, method, params } of this.bench.heard()) {
      const cancelled = (params as { readonly requestId?: unknown } | undefined)?.requestId;
      if (method === "notifications/cancelled") this.asked.delete(cancelled);
      else if (id !== undefined) this.asked.set(id, String(method));
      const [, whose = "", number] = String(method).split("/");
      if (number !== undefined) this.heard.set(whose, [...(this.heard.get(whose) ?? []), Number(number)]);
    }
  }

  get counts(): Counts {
    return JSON.parse(JSON.stringify(this.bench.counters)) as Counts;
  }

  /** Returns the outcomes of the requests, as their clients have seen them. */
  get outcomes(): Record<string, number> {
    const outcomes: Record<string, number> = {};
    for (const reply of this.replies) {
      const { outcome } = reply;
      const words = {
        object: "results",
        number: "errors",
        string: String(outcome),
        undefined: this.left.has(reply) ? "unread" : "open",
      };
      const word = words[typeof outcome as keyof typeof words];
      outcomes[word] = (outcomes[word] ?? 0) + 1;
    }
    return outcomes;
  }
}

const index = fc.nat({ max: 30 });
const steps: fc.Arbitrary<(scene: Scene) => void>[] = [
  index.map((each) => (scene) => scene.request(each)),
  index.map((each) => (scene) => scene.request(each)),
  index.map((each) => (scene) => scene.requestLimited(each)),
  index.map((each) => (scene) => scene.requestLimited(each)),
  index.map((each) => (scene) => scene.request(each, "x/long", { text: "l".repeat(400) })),
  index.map((each) => (scene) => void scene.bench.notify(scene.session(each), { method: scene.methodOf(scene.session(each)) })),
  fc
    .constantFrom("tasks/list", "logging/setLevel", "resources/subscribe", "resources/unsubscribe")
    .chain((method) =>
      index.map((each) => (scene: Scene) => scene.request(each, method, { level: ["info", "debug"][each % 2], uri: "x:1" })),
    ),
  fc.constant((scene) => scene.initialize()),
  fc.constant((scene) => scene.answer({ result: {} })),
  fc.constant((scene) => scene.answer({ result: {} })),
  fc.constant((scene) => scene.answer({ error: { code: 1 } })),
  fc.constant((scene) => scene.answer("too long")),
  index.map((each) => (scene) => scene.cancel(each)),
  index.map((each) => (scene) => scene.leave(each)),
  index.map((each) => (scene) => scene.endSession(each)),
  fc.constant((scene) => scene.restart()),
  fc.constant((scene) => scene.bench.lose()),
  // It stops reading.
  fc.constant((scene) => void (scene.bench.upstream.isReading = false)),
  fc.nat({ max: 400 }).map((ms) => () => void vi.advanceTimersByTime(ms)),
];

useFakeClock();

/** Runs all steps. @returns the largest number of clients' requests that the server had in flight. */
function play(scene: Scene, sequence: readonly ((scene: Scene) => void)[]): number {
  let most = 0;
  scene.restart();
  for (const each of sequence) {
    each(scene);
    scene.listen();
    // The sidecar itself requests only resources and levels.
    const ofClients = [...scene.asked.values()].filter((method) => method.startsWith("x/"));
    most = Math.max(most, ofClients.length);
    for (const [tool, { limit, freeCount }] of scene.slots.entries()) {
      expect(freeCount).toBeGreaterThanOrEqual(0);
      expect(scene.countAsked(tool)).toBeLessThanOrEqual(limit);
    }
  }
  return most;
}

const sum = (counts: Record<string, number>): number => Object.values(counts).reduce((total, count) => total + count, 0);

describe("the counters of requests", () => {
  const sequence = fc.array(fc.oneof(...steps), { maxLength: 80, size: "max" });

  it("every request is counted once, and the server hears each session in order, within MAX_IN_FLIGHT", () => {
    fc.assert(
      fc.property(sequence, (each) => {
        const scene = new Scene();
        expect(play(scene, each)).toBeLessThanOrEqual(2);
        for (const numbers of scene.heard.values()) expect(numbers).toEqual([...new Set(numbers)].toSorted((a, b) => a - b));
        scene.bench.lane.close();
        const { requests, answers } = scene.counts;
        const { failures, ...kinds } = answers;
        expect(requests.accepted).toBe(sum(kinds) + sum(failures));
        expect(requests.accepted + sum(requests.refused)).toBe(scene.replies.length);
        const seen = Object.entries(kinds).filter(([, count]) => count > 0);
        const codes = new Set([...Object.keys(failures), ...Object.keys(requests.refused)]);
        for (const code of codes) seen.push([code, (failures[code] ?? 0) + (requests.refused[code] ?? 0)]);
        expect(Object.fromEntries(seen)).toEqual(scene.outcomes);
        expect(scene.sessions.map(({ callsInFlight }) => callsInFlight)).toEqual([0, 0, 0]);
        expect(scene.slots.map(({ isUnused }) => isUnused)).toEqual([true, true]);
      }),
      { numRuns: 1000 },
    );
  });
});
