import { expect, it } from "vitest";
import { type CallCheck, type CallVerdict, Semaphore } from "../../src/server/call.ts";
import type { Config } from "../../src/config/load.ts";
import type { Session } from "../../src/session/session.ts";
import { LaneBench } from "./support/lane-bench.ts";
import type { RecordedReply } from "./support/recorded-reply.ts";
import { useFakeClock } from "../support/fake-clock.ts";

useFakeClock();

class HeldCheck {
  readonly open: ((verdict: CallVerdict | undefined) => void)[] = [];
  stopped = 0;

  readonly check: CallCheck = (onVerdict) => {
    this.open.push(onVerdict);
    return () => {
      this.stopped++;
      this.open.splice(this.open.indexOf(onVerdict), 1);
    };
  };

  give(verdict?: CallVerdict): void {
    const onVerdict = this.open.shift();
    if (onVerdict === undefined) throw new Error("no check is open");
    onVerdict(verdict);
  }
}

interface CheckedBench {
  readonly bench: LaneBench;
  readonly session: Session;
  readonly held: HeldCheck;
  readonly call: (id: number, slots?: Semaphore) => RecordedReply;
  readonly heardCalls: () => number;
}

function createBench(limits: Partial<Config> = {}): CheckedBench {
  const bench = LaneBench.shared(limits);
  const [session, held] = [bench.join(), new HeldCheck()];
  bench.start();
  return {
    bench,
    session,
    held,
    call: (id, slots) =>
      bench.request(session, { id, method: "tools/call", params: { name: "a" } }, true, Date.now(), {
        check: held.check,
        ...(slots === undefined ? {} : { semaphore: slots }),
      }),
    heardCalls: () => bench.heard().filter(({ method }) => method === "tools/call").length,
  };
}

it("a checked call reaches the server once the check permits it", () => {
  const { bench, held, call, heardCalls } = createBench();
  const reply = call(1);
  expect([heardCalls(), bench.lane.calls.load.requestsInFlight]).toEqual([0, 1]);
  held.give();
  bench.reply("tools/call", { result: { ok: true } });
  expect([reply.outcome, held.stopped]).toEqual([{ ok: true }, 0]);
});

it("a checked call whose server exits is checked again for the next one", () => {
  const { bench, held, call, heardCalls } = createBench();
  const slots = new Semaphore("tool a", 1);
  const reply = call(1, slots);
  bench.lose();
  expect([held.stopped, held.open.length, bench.lane.calls.load.waiting, slots.freeCount]).toEqual([1, 0, 1, 1]);
  bench.start();
  expect([held.open.length, heardCalls()]).toEqual([1, 0]);
  held.give();
  expect([heardCalls(), reply.outcome]).toEqual([1, undefined]);
});

it("a call that is being checked takes a slot, and its text counts as queued", () => {
  const { bench, held, call, heardCalls } = createBench({ maxInFlight: 1 });
  const [first, second] = [call(1), call(2)];
  expect([held.open.length, bench.lane.calls.load.waiting]).toEqual([1, 1]);
  const { queuedBytes } = bench.lane.calls.load;
  held.give({ resultText: "{}" });
  expect(bench.lane.calls.load.queuedBytes).toBe(queuedBytes / 2);
  held.give();
  expect([first.outcome, second.outcome, heardCalls(), bench.lane.calls.load.queuedBytes]).toEqual([{}, undefined, 1, 0]);
});

it("a defect of a check fails its call only, not the one whose end has let it begin", () => {
  const bench = LaneBench.shared({ maxInFlight: 1 });
  const session = bench.join();
  bench.start();
  const request = { method: "tools/call", params: { name: "a" } };
  const check: CallCheck = () => {
    throw new Error("a defect");
  };
  const first = bench.request(session, { id: 1, ...request });
  const second = bench.request(session, { id: 2, ...request }, true, Date.now(), { check });
  bench.reply("tools/call", { result: { ok: true } });
  expect([first.outcome, second.outcome, bench.lane.calls.values()]).toEqual([{ ok: true }, "INTERNAL_ERROR", []]);
});
