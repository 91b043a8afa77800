import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type NotificationMessage, readMessage } from "../../../src/jsonrpc/message.ts";
import { deliverProgress } from "../../../src/mux/progress.ts";
import { idText } from "../../support/json-text.ts";
import { CallBench } from "../support/calls.ts";

function progressText(token: string): string {
  return `{"jsonrpc":"2.0","params":{"message":"1.0","total":9007199254740993, "progressToken" : ${token}},"method":"notifications/progress"}`;
}

/** The server shows progress at the time 60, which is worth 100 more to the call it is for. */
function deliver({ table }: CallBench, text: string): boolean {
  return deliverProgress(table, readMessage(text) as NotificationMessage, 60);
}

describe("progress of the server", () => {
  it("reaches the call whose token it is, under the client's own token, byte for byte", () => {
    fc.assert(
      fc.property(idText, (token) => {
        const bench = new CallBench();
        const [other, own] = [bench.add({ progressTokenText: token }), bench.add({ progressTokenText: token })];
        expect(deliver(bench, progressText(String(own.wireId)))).toBe(true);
        expect([other.exchange.emitted, own.exchange.emitted]).toEqual([[], [progressText(token)]]);
      }),
    );
  });

  it("gives its call new time, and no other one", () => {
    const bench = new CallBench();
    const [other, own] = [bench.add({ progressTokenText: "1" }), bench.add({ progressTokenText: "1" })];
    deliver(bench, progressText(String(own.wireId)));
    expect([other.deadlineMs, own.deadlineMs]).toEqual([100, 160]);
  });

  it("gives new time also to a call whose client reads no stream, and is not delivered there", () => {
    const bench = new CallBench();
    const call = bench.add({ progressTokenText: "1", readsStreams: false });
    expect([deliver(bench, progressText(String(call.wireId))), call.exchange.emitted, call.deadlineMs]).toEqual([false, [], 160]);
  });

  it("is not delivered, and gives no time, where nobody asked for it", () => {
    const bench = new CallBench();
    const [untold, queued] = [bench.add(), bench.add({ progressTokenText: "1", state: "queued" })];
    for (const token of [String(untold.wireId), String(queued.wireId), `"${untold.wireId}"`, "0", "99", "null", "{}"]) {
      expect(deliver(bench, progressText(token))).toBe(false);
    }
    expect(deliver(bench, '{"jsonrpc":"2.0","method":"notifications/progress"}')).toBe(false);
    for (const call of [untold, queued]) expect([call.exchange.emitted, call.deadlineMs]).toEqual([[], 100]);
  });

  it("is not delivered behind the answer", () => {
    const bench = new CallBench();
    const call = bench.add({ progressTokenText: "1" });
    bench.table.takeAnswered(call.wireId, "results");
    expect([deliver(bench, progressText(String(call.wireId))), call.exchange.emitted]).toEqual([false, []]);
  });
});
