import { describe, expect, it } from "vitest";
import type { EventStream } from "../support/event-stream.ts";
import type { JsonRpcMessage } from "../support/json-rpc.ts";
import { LaneClient } from "../support/lane-client.ts";
import { HttpBench } from "../support/http-bench.ts";

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
});
