import { expect, it } from "vitest";
import { Counters } from "../../../src/observability/counters.ts";
import { Defects } from "../../../src/observability/defects.ts";
import { type DefectListener, guardListener } from "../../../src/lane/guarded-listener.ts";
import { RecordedLog } from "../../support/recorded-log.ts";
import { answerOfServer, LaneBench, requestOfClient } from "../support/lane-bench.ts";

function fail(): never {
  throw new Error("a defect");
}

it("a guard logs and counts a defect, and then recovers from it", () => {
  const [log, counters] = [new RecordedLog(), new Counters()];
  const defects = new Defects(log, counters);
  let recovered = 0;
  defects.guard("test", fail, () => recovered++);
  expect([counters.defects, recovered]).toEqual([1, 1]);
  expect(log.lines).toMatchObject([{ level: "error", message: "defect of the sidecar", fields: { kind: "test", reason: "a defect" } }]);
});

it("a guard survives a recovery that fails as well", () => {
  const counters = new Counters();
  new Defects(new RecordedLog(), counters).guard("test", fail, fail);
  expect(counters.defects).toBe(2);
});

it("a server is restarted if a listener fails to handle its output", () => {
  let failures = 0;
  const listener: DefectListener = {
    onStarted: fail,
    onReady: fail,
    onMessage: fail,
    onRefused: fail,
    onOverlongLine: fail,
    onLost: fail,
    onDefect: () => failures++,
  };
  const restarts: string[] = [];
  const defects = new Defects(new RecordedLog(), new Counters());
  const guarded = guardListener(listener, { restart: (kind) => restarts.push(kind) }, defects);
  guarded.onMessage(requestOfClient({ id: 1, method: "ping" }));
  guarded.onOverlongLine({ bytes: 1, idText: undefined, hasMethod: false });
  guarded.onRefused(answerOfServer('{"jsonrpc":"2.0","id":0,"error":{"code":1,"message":"no"}}'));
  guarded.onReady({ generation: 1, resultText: "{}", protocolVersion: "2025-11-25" });
  expect([restarts, failures]).toEqual([["defect", "defect", "defect", "defect"], 0]);
  const exit = { exitCode: 1, signal: undefined, generation: 1, reason: "exited with code 1", at: new Date(0) };
  guarded.onLost({ ...exit, stderrTail: [], kind: "crash" }, []);
  expect(failures).toBe(1);
});

it("a request whose answer cannot be given fails alone", () => {
  const bench = LaneBench.ready();
  const session = bench.join();
  const broken = bench.request(session, { method: "x/first" });
  const whole = bench.request(session, { method: "x/second" });
  broken.respond = fail;
  for (const { id } of bench.heard().filter((message) => message["id"] !== undefined)) bench.say({ id, result: {} });
  expect([broken.outcome, whole.outcome, bench.counters.defects]).toEqual(["INTERNAL_ERROR", {}, 1]);
});
