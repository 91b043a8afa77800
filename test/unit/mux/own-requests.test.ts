import { describe, expect, it } from "vitest";
import { OwnRequests } from "../../../src/mux/own-requests.ts";

/** Requests of the sidecar's own, to a server that answers when the test says so. */
class Bench {
  readonly sent: string[] = [];
  readonly #settle: ((hasResult: boolean) => void)[] = [];
  readonly own = new OwnRequests((method, _params, onSettled) => {
    this.sent.push(method);
    this.#settle.push(onSettled);
  });

  add(...methods: readonly string[]): void {
    for (const method of methods) this.own.add({ method, params: {} });
  }

  /** The oldest one that is open is answered. */
  answer(hasResult = true): void {
    this.#settle.shift()?.(hasResult);
  }
}

const SIXTEEN = Array.from({ length: 16 }, (_, number) => `first ${number}`);

describe("the sidecar's own requests", () => {
  it("are sent a few at a time, in order, the next when one has settled, whatever came of it", () => {
    const bench = new Bench();
    bench.add(...SIXTEEN, "a", "b", "c");
    expect(bench.sent).toEqual(SIXTEEN);
    bench.answer();
    expect(bench.sent.slice(16)).toEqual(["a"]);
    bench.answer(false);
    expect(bench.sent.slice(16)).toEqual(["a", "b"]);
    bench.answer();
    bench.answer();
    bench.add("d");
    expect(bench.sent.slice(16)).toEqual(["a", "b", "c", "d"]);
  });

  it("are not sent where they are not true any more when their turn comes", () => {
    const bench = new Bench();
    let isCurrent = true;
    bench.add(...SIXTEEN);
    bench.own.add({ method: "outdated", params: {}, isCurrent: () => isCurrent });
    bench.own.add({ method: "outdated, too", params: {}, isCurrent: () => isCurrent });
    bench.add("a");
    isCurrent = false;
    bench.answer();
    expect(bench.sent.slice(16)).toEqual(["a"]);
  });

  it("tell how they ended, before the next one goes out", () => {
    const bench = new Bench();
    const order: string[] = [];
    bench.add(...SIXTEEN.slice(1));
    bench.own.add({ method: "last of them", params: {}, onSettled: (hasResult) => order.push(`${hasResult} ${bench.sent.length}`) });
    bench.add("a");
    for (let count = 0; count < 16; count++) bench.answer(false);
    expect(order).toEqual(["false 17"]);
  });

  it("are forgotten with the server that they were for, but for those that it may have read", () => {
    const bench = new Bench();
    bench.add(...SIXTEEN, "a");
    bench.own.clear();
    bench.add("b");
    for (let count = 0; count < 17; count++) bench.answer(false);
    expect(bench.sent.slice(16)).toEqual(["b"]);
    bench.add(...SIXTEEN, "c");
    expect(bench.sent.slice(17)).toEqual(SIXTEEN);
  });

  it("go on where sending one fails at once", () => {
    const sent: string[] = [];
    const own = new OwnRequests((method, _params, onSettled) => {
      sent.push(method);
      onSettled(false);
    });
    for (const method of [...SIXTEEN, "a", "b"]) own.add({ method, params: {} });
    expect(sent).toEqual([...SIXTEEN, "a", "b"]);
  });
});
