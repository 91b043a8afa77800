import { describe, expect, it, vi } from "vitest";
import { LaneSubscription } from "../../../src/era/subscriptions/lane-subscription.ts";
import { allLists, filterMembers, type SubscriptionFilter } from "../../../src/era/subscriptions/subscription-filter.ts";
import { SidecarError } from "../../../src/errors.ts";
import type { Exchange } from "../../../src/sessions/exchange.ts";
import { useFakeClock } from "../../support/fake-clock.ts";

useFakeClock();

const TIMEOUT_MS = 1000;
const LISTS = filterMembers({ lists: allLists(), uris: new Set(), tasks: new Set() });

interface Request {
  readonly wireId: number;
  readonly filter: object;
  readonly exchange: Exchange;
  cancelled?: string;
}

/** A server that gets the subscriptions of a lane, and the lane's clients. */
class Bench {
  readonly requests: Request[] = [];
  readonly reopened: object[] = [];
  readonly answers: string[] = [];
  readonly #uris = new Set<string>();
  readonly subscription: LaneSubscription;
  /** True if no request can be sent. */
  isFull = false;

  constructor() {
    this.subscription = new LaneSubscription({
      dispatch: {
        watch: (deadlineMs) => setTimeout(() => this.subscription.expire(Date.now()), deadlineMs - Date.now()),
        internal: { open: (exchange, { text }) => this.#open(exchange, text) },
      },
      nowMs: Date.now,
      timeoutMs: TIMEOUT_MS,
      requestMeta: undefined,
      wanted: (): SubscriptionFilter => ({ lists: allLists(), uris: new Set(this.#uris), tasks: new Set() }),
      onReopened: (filter) => this.reopened.push(filterMembers(filter)),
    });
  }

  /** Subscribes to resources, as one client each. */
  subscribe(...uris: string[]): void {
    for (const uri of uris) {
      this.#uris.add(uri);
      this.subscription.subscribe(uri, (isAccepted) => {
        this.answers.push(`${uri}: ${isAccepted ? "accepted" : "rejected"}`);
        if (isAccepted) return;
        this.#uris.delete(uri);
        this.subscription.update();
      });
    }
  }

  get last(): Request {
    const last = this.requests.at(-1);
    if (last === undefined) throw new Error("no request");
    return last;
  }

  /** Acknowledges the last request. */
  accept(...uris: string[]): void {
    this.subscription.onAcknowledged(this.last.wireId, new Set(uris));
  }

  /** Answers the last request with an error. */
  reject(): void {
    this.last.exchange.respond('{"jsonrpc":"2.0","id":0,"error":{"code":-32602,"message":"no"}}');
    vi.advanceTimersByTime(1);
  }

  #open(exchange: Exchange, text: string): { readonly wireId: number; readonly cancel: (reason: string) => void } {
    const { params } = JSON.parse(text) as { params: { notifications: object } };
    const request: Request = { wireId: this.requests.length + 1, filter: params.notifications, exchange };
    this.requests.push(request);
    if (this.isFull) exchange.fail(new SidecarError("OVERLOADED", "full"));
    return { wireId: request.wireId, cancel: (reason) => (request.cancelled = reason) };
  }
}

function filterOf(...uris: string[]): object {
  return { ...LISTS, resourceSubscriptions: uris };
}

describe("the subscription of a lane", () => {
  it("the former request ends when the next one is acknowledged", () => {
    const bench = new Bench();
    bench.subscription.update();
    bench.accept();
    bench.subscribe("a");
    expect(bench.requests.map(({ cancelled }) => cancelled)).toEqual([undefined, undefined]);
    bench.accept("a");
    expect(bench.requests.map(({ cancelled }) => cancelled)).toEqual(["replaced by another subscription", undefined]);
    expect(bench.answers).toEqual(["a: accepted"]);
  });

  it("clients that subscribe at the same time get the answer about their own resource", () => {
    const bench = new Bench();
    bench.subscription.update();
    bench.accept();
    bench.subscribe("first");
    bench.subscribe("bad", "good");
    bench.accept("first");
    expect(bench.last.filter).toEqual(filterOf("first", "bad", "good"));
    bench.reject();
    expect(bench.last.filter).toEqual(filterOf("first", "bad"));
    bench.reject();
    expect(bench.last.filter).toEqual(filterOf("first", "good"));
    bench.accept("first", "good");
    expect(bench.answers).toEqual(["first: accepted", "bad: rejected", "good: accepted"]);
  });

  it("a resource that is not part of the acknowledgement is rejected", () => {
    const bench = new Bench();
    bench.subscribe("a", "b");
    bench.accept("a");
    expect(bench.last.filter).toEqual(filterOf("a", "b"));
    bench.accept("a");
    expect(bench.answers).toEqual(["a: accepted", "b: rejected"]);
    expect(bench.last.filter).toEqual(filterOf("a"));
  });

  it("a server that rejects every filter gets each just once", () => {
    const bench = new Bench();
    bench.subscribe("a", "b");
    for (let round = 0; round < 100; round++) bench.reject();
    expect(bench.requests.length).toBeLessThan(8);
    expect(bench.answers).toEqual(["a: rejected", "b: rejected"]);
    vi.advanceTimersByTime(3_600_000);
    expect(bench.requests.length).toBeLessThan(8);
  });

  it("a rejected resource is tried again when a client subscribes to it", () => {
    const bench = new Bench();
    bench.subscription.update();
    bench.accept();
    bench.subscribe("a");
    bench.reject();
    bench.subscribe("a");
    bench.accept("a");
    expect(bench.answers).toEqual(["a: rejected", "a: accepted"]);
  });

  it("a server that never acknowledges a resource gets the next one", () => {
    const bench = new Bench();
    bench.subscription.update();
    bench.accept();
    bench.subscribe("silent");
    const silent = bench.last;
    bench.subscribe("good");
    vi.advanceTimersByTime(TIMEOUT_MS + 1);
    expect(silent.cancelled).toBe("not acknowledged in time");
    expect(bench.last.filter).toEqual(filterOf("good"));
    bench.accept("good");
    expect(bench.answers).toEqual(["silent: rejected", "good: accepted"]);
  });

  it("a subscription that the server ends is opened again after a growing pause, and announced", () => {
    const bench = new Bench();
    bench.subscribe("a");
    bench.accept("a");
    bench.accept("a");
    expect(bench.reopened).toEqual([]);
    for (const pauseMs of [1000, 2000, 4000]) {
      const { length } = bench.requests;
      bench.last.exchange.respond('{"jsonrpc":"2.0","id":0,"result":{"resultType":"complete"}}');
      vi.advanceTimersByTime(pauseMs - 1);
      expect(bench.requests).toHaveLength(length);
      vi.advanceTimersByTime(1);
      expect(bench.last.filter).toEqual(filterOf("a"));
      bench.accept("a");
    }
    expect(bench.reopened).toEqual([filterOf("a"), filterOf("a"), filterOf("a")]);
  });

  it("a request that cannot be sent is tried again later, and rejects nothing", () => {
    const bench = new Bench();
    bench.isFull = true;
    bench.subscribe("a", "b");
    expect(bench.requests).toHaveLength(2);
    bench.isFull = false;
    vi.advanceTimersByTime(1000);
    bench.accept("a", "b");
    expect(bench.answers).toEqual(["a: accepted", "b: accepted"]);
  });

  it("a lost generation opens nothing and answers nothing", () => {
    const bench = new Bench();
    bench.subscribe("a");
    bench.subscription.close();
    bench.last.exchange.fail(new SidecarError("UPSTREAM_EXITED", "gone"));
    vi.advanceTimersByTime(3_600_000);
    bench.subscription.update();
    expect(bench.requests).toHaveLength(1);
    expect(bench.answers).toEqual([]);
  });
});
