import { describe, expect, it } from "vitest";
import type { EventStream } from "../support/event-stream.ts";
import type { JsonRpcMessage } from "../support/json-rpc.ts";
import { LaneClient } from "../support/lane-client.ts";
import { HttpBench } from "../support/http-bench.ts";
import { isGroupAlive } from "../support/sidecar.ts";

const CALLS = 12;

/** Reads a stream to its end and answers every request on it. @returns all other messages. */
async function converse(client: LaneClient, name: string, stream: EventStream, asked: unknown[]): Promise<JsonRpcMessage[]> {
  const others: JsonRpcMessage[] = [];
  for (const message of stream.isStream ? messagesOf(stream) : [stream.answer()]) {
    const each = await message;
    if (each === undefined) break;
    if (each.method === undefined || each.id === undefined) others.push(each);
    else {
      asked.push(each.params?.["of"]);
      expect((await client.answer(each, { by: name })).status).toBe(202);
    }
  }
  return others;
}

function* messagesOf(stream: EventStream): Generator<Promise<JsonRpcMessage | undefined>> {
  for (;;) yield stream.nextText().then((text) => (text === undefined ? undefined : (JSON.parse(text) as JsonRpcMessage)));
}

/** Makes calls of every kind at once, all with the same ids and tokens as those of all other clients. */
async function useAll(client: LaneClient, name: string): Promise<void> {
  const asked: unknown[] = [];
  const calls = Array.from({ length: CALLS }, async (_, index) => {
    const token = { progressToken: index };
    using echo = await client.begin("echo", { text: `${name} ${index}` }, index, token);
    expect(await converse(client, name, echo, asked)).toMatchObject([{ id: index, result: { content: [{ text: `${name} ${index}` }] } }]);
    using progress = await client.begin("progress", { steps: index }, index, token);
    const shown = await converse(client, name, progress, asked);
    expect(shown.pop()).toMatchObject({ id: index, result: { content: [{ text: "done" }] } });
    expect(shown.map(({ params }) => params)).toEqual(
      Array.from({ length: index }, (_each, step) => ({ progressToken: index, progress: step + 1 })),
    );
    using ask = await client.begin("ask", { id: index, method: "elicitation/create", params: { of: name } }, index, token);
    const [answer] = await converse(client, name, ask, asked);
    expect(JSON.parse(answer?.result?.content?.[0]?.text ?? "")).toEqual({ jsonrpc: "2.0", id: index, result: { by: name } });
  });
  await Promise.all(calls);
  // Each client got the requests of its own server once, on either stream.
  expect(asked).toEqual(Array.from({ length: CALLS }, () => name));
}

describe("private lanes", () => {
  it("messages never cross lanes, although all clients use the same ids and tokens at once", async () => {
    await using sidecar = await HttpBench.start();
    const clients = await Promise.all(Array.from({ length: 6 }, () => LaneClient.connect(sidecar)));
    expect(new Set(clients.map(({ childPid }) => childPid)).size).toBe(6);
    await Promise.all(clients.map((client, index) => useAll(client, `client ${index}`)));
    // No message is left for a stream that is opened later.
    const streams = await Promise.all(clients.map((client) => client.openStream()));
    await Promise.all(clients.map((client) => client.end()));
    for (const stream of streams) expect(await stream.rest()).toEqual([]);
  });

  it("no call is left unanswered and no process remains while servers crash and sessions end", async () => {
    await using sidecar = await HttpBench.start({
      flags: ["--restart-backoff-ms", "1", "--restart-max-ms", "20", "--max-private-servers", "64"],
    });
    const outcomes: string[] = [];
    const lives = Array.from({ length: 8 }, async (_, index) => {
      for (let round = 0; round < 2; round++) {
        const client = await LaneClient.connect(sidecar);
        const stream = await client.openStream();
        const calls = Array.from({ length: 10 }, async (_each, call) => {
          const name = ["echo", "ask", "kill", "hang", "answer_and_exit"][(index + call) % 5] ?? "";
          using answer = await client.begin(name, { text: `${index}`, id: call, method: "roots/list" }, call);
          const { id, result, error } = await answer.answer();
          expect(id).toBe(call);
          const text = result?.content?.[0]?.text;
          // Another client's number would differ.
          outcomes.push(text === `${index}` ? "its own" : (text ?? String(error?.data?.["code"])));
        });
        // Some sessions end with all requests in flight, the others after the first response.
        if (index % 2 === 0) await Promise.race(calls);
        stream[Symbol.dispose]();
        expect((await client.end()).status).toBe(204);
        await Promise.all(calls);
      }
    });
    await Promise.all(lives);
    expect(outcomes).toHaveLength(160);
    const known = ["its own", "UPSTREAM_EXITED", "REQUEST_CANCELLED", "SESSION_NOT_FOUND", "last words"];
    for (const outcome of new Set(outcomes)) expect(known).toContain(outcome);
    const sharedPid = sidecar.logLines.find(({ msg }) => msg === "mcp server started")?.["childPid"];
    const others = sidecar.logLines.filter(({ msg, childPid }) => msg === "mcp server started" && childPid !== sharedPid);
    while (others.some(({ childPid }) => isGroupAlive(Number(childPid)))) await LaneClient.connectShared(sidecar);
    expect(await (await sidecar.client()).toolText("echo", { text: "on" })).toBe("on");
  });
});
