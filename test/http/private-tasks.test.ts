import { expect, it } from "vitest";
import { crash } from "../support/fixture-server.ts";
import { disposeAfterAll } from "../support/dispose-after-all.ts";
import { progressTokenOf } from "../support/json-rpc.ts";
import { LaneClient } from "../support/lane-client.ts";
import { waitForGeneration } from "../support/status.ts";
import { HttpBench } from "../support/http-bench.ts";

/** Makes a tool call that creates a task. @returns the call's id at its server, which is its progress token, too. */
async function createTask(client: LaneClient, token: string): Promise<number> {
  const task = `{"taskId":"task of $ID","status":"working","createdAt":"2025-11-25T00:00:00Z","lastUpdatedAt":"2025-11-25T00:00:00Z","ttl":60000}`;
  const line = JSON.stringify(`{"jsonrpc":"2.0","id":$ID,"result":{"task":${task}}}`);
  const params = `{"_meta":{"progressToken":${token}},"task":{"ttl":60000},"name":"raw_line","arguments":{"line":${line}}}`;
  using call = await client.postForStream(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":${params}}`);
  const answer = (await call.answer()) as { result?: { task?: { taskId: string } } };
  return Number(answer.result?.task?.taskId.slice("task of ".length));
}

function progress(token: unknown, value: number): string {
  return `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":${value},"progressToken": ${String(token)} ,"x":1.0}}`;
}

const sidecar = disposeAfterAll(await HttpBench.start());

it.each([
  ["a private", `"mine"`],
  ["a private", "0"],
  ["a shared", `"mine"`],
  ["a shared", "0"],
])("a task of %s server shows progress under token %s after its call's response", async (kind, token) => {
  const connect = (): Promise<LaneClient> => (kind === "a shared" ? LaneClient.connectShared(sidecar) : LaneClient.connect(sidecar));
  const [client, other] = [await connect(), await connect()];
  using stream = await client.openStream();
  using otherStream = await other.openStream();
  const wireId = await createTask(client, token);
  const otherId = await createTask(other, token);
  await client.write(progress(wireId, 1));
  await other.write(progress(otherId, 2));
  await client.write(progress(wireId, 3));
  expect([await stream.nextText(), await stream.nextText()]).toEqual([progress(token, 1), progress(token, 3)]);
  expect(await otherStream.nextText()).toBe(progress(token, 2));
  await Promise.all([client.end(), other.end()]);
  expect([await stream.rest(), await otherStream.rest()]).toEqual([[], []]);
});

it("a task shows no progress after its session or server has ended", async () => {
  await using own = await HttpBench.start({ flags: ["--restart-backoff-ms", "1", "--restart-max-ms", "20", "--log-level", "debug"] });
  const [ending, client] = [await LaneClient.connectShared(own), await LaneClient.connectShared(own)];
  using stream = await client.openStream();
  const endedId = await createTask(ending, "0");
  const wireId = await createTask(client, "0");
  await ending.end();
  const dropped = (count: number): Promise<unknown> => own.waitForLog("server notification dropped", (line) => line["count"] === count);
  await client.write(progress(endedId, 1));
  await dropped(1);
  await crash(own);
  await waitForGeneration(own, 2);
  await client.write(progress(wireId, 1));
  await dropped(2);
  await client.end();
  expect(await stream.rest()).toEqual([]);
});

it("a client's task shows progress after its creation, under the server's token", async () => {
  const client = await LaneClient.connect(sidecar);
  using stream = await client.openStream();
  await client.write(
    `{"jsonrpc":"2.0","id":"ask","method":"sampling/createMessage","params":{"task":{},"_meta":{"progressToken":"its own"}}}`,
  );
  const asked = await stream.next();
  await client.answer(asked, { task: { taskId: "c-1", status: "working" } });
  await client.post(progress(progressTokenOf(asked), 1));
  expect((await client.lines()).at(-2)).toBe(progress(`"its own"`, 1));
  await client.end();
});
