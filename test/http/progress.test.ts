import { describe, expect, it } from "vitest";
import { disposeAfterAll } from "../support/dispose-after-all.ts";
import { answerOf, HeldCall, progressOf, say } from "../support/held-call.ts";
import { timeoutFlags, waitForHanging } from "../support/in-flight.ts";
import { messageTexts, readMessages } from "../support/json-rpc.ts";
import { HttpBench } from "../support/http-bench.ts";

function progressLine(token: string, rest = `"progress":1`): string {
  return `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":${token},${rest}}}`;
}

/** Sends progress of a call without end, until it is stopped. */
class Heartbeat {
  readonly #running: Promise<void>;
  #isStopped = false;

  constructor(call: HeldCall) {
    this.#running = this.#run(call);
  }

  stop(): Promise<void> {
    this.#isStopped = true;
    return this.#running;
  }

  async #run(call: HeldCall): Promise<void> {
    for (let step = 1; !this.#isStopped; step++) await call.progress(step);
  }
}

describe("progress", async () => {
  const sidecar = disposeAfterAll(await HttpBench.start({ flags: ["--log-level", "debug"] }));
  const client = await sidecar.client();

  /** Returns the number of notifications that the sidecar has dropped, which it logs with each of them. */
  function droppedCount(): number {
    return Number(sidecar.logLines.findLast(({ msg }) => msg === "server notification dropped")?.["count"] ?? 0);
  }

  async function waitForDropped(count: number): Promise<void> {
    await sidecar.waitForLog("server notification dropped", (line) => line["count"] === count);
  }

  it.each([`"a token"`, `"7"`, `7`, `0`, `-1`, `1.50e1`, `9007199254740993`, `""`, String.raw`"\u00e9\/\ud83d\ude00"`, `"r1-1"`])(
    "progress carries the token %s as its client spelled it",
    async (token) => {
      const body = `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"_meta":{"progressToken":${token}},"name":"progress","arguments":{"steps":2}}}`;
      const messages = messageTexts(await client.post(body));
      expect(messages.slice(0, 2)).toEqual([progressLine(token), progressLine(token, `"progress":2`)]);
      expect(JSON.parse(messages[2] ?? "")).toEqual(answerOf());
    },
  );

  it("progress reaches the client otherwise unchanged", async () => {
    const line = `{ "params" : {"total":1.0,"progressToken": $ID ,"progress":9007199254740993,"message":"caf\\u00e9 $","x":{"progressToken":1}},"method":"notifications/progress","jsonrpc":"2.0"}`;
    const params = {
      name: "raw_line",
      arguments: { line: `${line}\n{"jsonrpc":"2.0","id":$ID,"result":{}}` },
      _meta: { progressToken: "t" },
    };
    const messages = messageTexts(await client.post({ jsonrpc: "2.0", id: 7, method: "tools/call", params }));
    expect(messages).toEqual([line.replace("$ID", `"t"`), `{"jsonrpc":"2.0","id":7,"result":{}}`]);
  });

  it("progress reaches the right client if clients chose the same token and id", async () => {
    const clients = await Promise.all(Array.from({ length: 10 }, () => sidecar.client()));
    const calls: HeldCall[] = [];
    // Two of each client.
    for (const each of [...clients, ...clients]) calls.push(await HeldCall.start(each, client, { id: 1, token: 1 }));
    for (const [index, call] of calls.entries()) await call.progress(index, index + 100);
    for (const [index, call] of calls.entries()) {
      await call.answer(`call ${index}`);
      using stream = await call.stream;
      expect(await stream.rest()).toEqual([progressOf(index, 1), progressOf(index + 100, 1), answerOf(`call ${index}`, 1)]);
    }
  });

  it("progress of many simultaneous calls is never mixed up", async () => {
    const clients = await Promise.all(Array.from({ length: 10 }, () => sidecar.client()));
    const replies = await Promise.all(
      clients.flatMap((each) =>
        Array.from({ length: 10 }, (_, index) => {
          const params = { name: "progress", arguments: { steps: 10 + index }, _meta: { progressToken: index } };
          return each.post({ jsonrpc: "2.0", id: 1, method: "tools/call", params });
        }),
      ),
    );
    for (const [position, reply] of replies.entries()) {
      const index = position % 10;
      const expected = Array.from({ length: 10 + index }, (_, step) => progressOf(step + 1, index));
      expect(readMessages(reply)).toEqual([...expected, answerOf("done", 1)]);
    }
  });

  it("progress of a call without a token is dropped, even if it names the call", async () => {
    const before = droppedCount();
    const call = await HeldCall.start(client, client, { token: null });
    await call.progress(1);
    await waitForDropped(before + 1);
    await call.answer();
    using stream = await call.stream;
    expect(stream.headers["content-type"]).toBe("application/json");
  });

  it("progress is dropped if its token is a client's own, mistyped or missing", async () => {
    const before = droppedCount();
    const call = await HeldCall.start(client, client, { token: "mine" });
    const tokens = [`"mine"`, `"0${call.wireId}"`, String(call.wireId + 1000), "null", `{"a":1}`, `[${call.wireId}]`];
    for (const token of tokens) await say(client, progressLine(token));
    await say(client, `{"jsonrpc":"2.0","method":"notifications/progress"}`);
    await waitForDropped(before + tokens.length + 1);
    await call.progress(1);
    await call.answer();
    using stream = await call.stream;
    expect(await stream.rest()).toEqual([progressOf(1), answerOf()]);
  });

  it("progress is dropped after the response", async () => {
    const before = droppedCount();
    using standalone = await client.openStream();
    const call = await HeldCall.start(client, client);
    await call.progress(1);
    await call.answer();
    await call.progress(2);
    await waitForDropped(before + 1);
    using stream = await call.stream;
    expect(await stream.rest()).toEqual([progressOf(1), answerOf()]);
    await say(client, `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`);
    expect(await standalone.messages(1)).toEqual([{ jsonrpc: "2.0", method: "notifications/tools/list_changed" }]);
  });

  it("progress is dropped after the client's cancellation", async () => {
    const before = droppedCount();
    const call = await HeldCall.start(client, client);
    await call.progress(1);
    await client.notify("notifications/cancelled", { requestId: 7 });
    await call.progress(2);
    await waitForDropped(before + 1);
    using stream = await call.stream;
    expect(await stream.rest()).toEqual([progressOf(1)]);
  });

  it("progress of an earlier generation never reaches a call of the next one", async () => {
    await using crashing = await HttpBench.start({ flags: ["--restart-backoff-ms", "1", "--restart-max-ms", "1"] });
    const own = await crashing.client();
    const lost = await HeldCall.start(own, own);
    await lost.progress(1);
    using lostStream = await lost.stream;
    await own.callTool("exit", { code: 1 });
    expect(await lostStream.rest()).toMatchObject([progressOf(1), { id: 7, error: { data: { code: "UPSTREAM_EXITED" } } }]);
    const next = await HeldCall.start(own, own, { token: "next" });
    expect(next.wireId).toBeGreaterThan(lost.wireId);
    await say(own, progressLine(String(lost.wireId), `"progress":666`));
    await next.progress(2);
    await next.answer();
    using stream = await next.stream;
    expect(await stream.rest()).toEqual([progressOf(2, "next"), answerOf()]);
  });

  it("progress extends a call's time limit, up to ten times", async () => {
    await using impatient = await HttpBench.start({ flags: timeoutFlags(400) });
    const own = await impatient.client();
    const startedAtMs = performance.now();
    const call = await HeldCall.start(own, own);
    const other = own.begin("hang", {}, 8);
    await waitForHanging(own, 2);
    const beat = new Heartbeat(call);
    // A call of the same age without progress times out.
    using timedOut = await other;
    expect(timedOut.headers["content-type"]).toBe("application/json");
    expect((await timedOut.answer()).error?.data).toMatchObject({ code: "REQUEST_TIMEOUT", timeoutMs: 400 });
    using stream = await call.stream;
    const messages = await stream.rest();
    await beat.stop();
    expect(messages.length).toBeGreaterThan(3);
    expect(messages.at(-1)).toMatchObject({ id: 7, error: { data: { code: "REQUEST_TIMEOUT" } } });
    expect(performance.now() - startedAtMs).toBeGreaterThanOrEqual(4000);
  });
});
