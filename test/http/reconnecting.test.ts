import { afterAll, beforeAll, expect, it } from "vitest";
import { Random } from "../../chaos/random.ts";
import type { EventStream } from "../support/event-stream.ts";
import { answerOf, progressOf, say } from "../support/held-call.ts";
import type { McpClient } from "../support/mcp-client.ts";
import { SEED } from "../support/set-up.ts";
import { HttpBench } from "../support/http-bench.ts";
import type { RunningSidecar } from "../support/running-sidecar.ts";

const CLIENTS = 10;
const BROADCASTS = 200;
const CALLS = 3;

function createRandom(seed: number): (limit: number) => number {
  const random = new Random(seed);
  return (limit) => random.below(limit);
}

function listChanged(number: number): string {
  return JSON.stringify({ jsonrpc: "2.0", method: "notifications/tools/list_changed", params: { number } });
}

/** Clients that lose their connections repeatedly, at random points. Half of the connections are closed, half stay half-open. */
let sidecar: RunningSidecar;
const abandoned: EventStream[] = [];
beforeAll(async () => {
  sidecar = await HttpBench.start({ flags: ["--keep-alive-ms", "3"] });
});
afterAll(async () => {
  for (const stream of abandoned) stream.close();
  await sidecar[Symbol.asyncDispose]();
});

async function openClient(index: number): Promise<McpClient> {
  return sidecar.client({ protocolVersion: index % 2 === 0 ? "2025-11-25" : "2025-06-18" });
}

function lose(stream: EventStream, isHalfOpen: boolean): void {
  if (isHalfOpen) abandoned.push(stream);
  else stream.close();
}

async function listen(client: McpClient, first: EventStream, random: (limit: number) => number): Promise<number[]> {
  const numbers: number[] = [];
  let stream = first;
  for (;;) {
    // At least one: without priming, a client has no id before its first message.
    const messages = await stream.messages(Math.min(1 + random(10), BROADCASTS - numbers.length));
    numbers.push(...messages.map((message) => Number(message.params?.["number"])));
    lose(stream, random(2) === 0);
    if (numbers.length >= BROADCASTS || messages.length === 0) return numbers;
    stream = await client.openStream({ lastEventId: stream.lastEventId });
  }
}

async function call(client: McpClient, steps: number, random: (limit: number) => number): Promise<unknown[]> {
  let stream = await client.begin("progress", { steps }, 7, { progressToken: "mine" });
  const messages: unknown[] = [];
  for (;;) {
    const part = await stream.messages(Math.min(1 + random(50), steps + 1 - messages.length));
    messages.push(...part);
    lose(stream, random(2) === 0);
    if (messages.length > steps || part.length === 0) return messages;
    stream = await client.openStream({ lastEventId: stream.lastEventId });
  }
}

it.each([SEED, SEED + 1, SEED + 2])("each client gets all its messages in order, once (seed %i)", async (seed) => {
  const control = await sidecar.client();
  const listeners = await Promise.all(
    Array.from({ length: CLIENTS }, async (_, index) => {
      const client = await openClient(index);
      return { client, stream: await client.openStream(), random: createRandom(seed * 100 + index) };
    }),
  );
  const listening = listeners.map(({ client, stream, random }) => listen(client, stream, random));
  const calling = Array.from({ length: CLIENTS }, async (_, index) => {
    const random = createRandom(seed * 1000 + index);
    const client = await openClient(index);
    for (let count = 0; count < CALLS; count++) {
      const steps = 1 + random(300);
      const expected = Array.from({ length: steps }, (_each, step) => progressOf(step + 1));
      expect(await call(client, steps, random)).toEqual([...expected, answerOf()]);
    }
  });
  for (let number = 1; number <= BROADCASTS; number += 2) await say(control, listChanged(number), listChanged(number + 1));
  await Promise.all(calling);
  const expected = Array.from({ length: BROADCASTS }, (_, index) => index + 1);
  for (const numbers of await Promise.all(listening)) expect(numbers).toEqual(expected);
});
