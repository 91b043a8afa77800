import { describe, expect, it } from "vitest";
import type { EventStream } from "../support/event-stream.ts";
import { waitForHanging } from "../support/fixture-server.ts";
import { LaneClient } from "../support/lane-client.ts";
import { HttpBench } from "../support/http-bench.ts";

const LEVELS = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

function log(level: string, data: string = level): string {
  return JSON.stringify({ jsonrpc: "2.0", method: "notifications/message", params: { level, data } });
}

async function setLevel(client: LaneClient, level: string): Promise<unknown> {
  return (await client.request("logging/setLevel", { level })).result;
}

async function logDuringCall(client: LaneClient, ...lines: string[]): Promise<unknown[]> {
  using call = await client.begin("raw_line", { line: [...lines, '{"jsonrpc":"2.0","id":$ID,"result":{}}'].join("\n") });
  return (await call.rest()).flatMap(({ method, params }) => (method === "notifications/message" ? [params?.["data"]] : []));
}

async function endAndRead(client: LaneClient, stream: EventStream): Promise<unknown[]> {
  await client.end();
  return (await stream.rest()).map(({ params }) => params?.["data"]);
}

describe("the log level of a shared server", () => {
  it.each(["loud", "DEBUG", 3, null])("the server judges the invalid level %j, which changes nothing", async (level) => {
    await using sidecar = await HttpBench.start();
    const client = await LaneClient.connectShared(sidecar);
    using stream = await client.openStream();
    const reply = await client.request("logging/setLevel", { level });
    expect(reply.result).toEqual({ method: "logging/setLevel", params: { level } });
    expect(await logDuringCall(client, ...LEVELS.map((each) => log(each)))).toEqual([]);
    expect(await client.received("logging/setLevel")).toEqual([{ level }]);
    expect(await endAndRead(client, stream)).toEqual([]);
  });
});

describe("a log message of a shared server", () => {
  it("a message reaches the caller if its session has set that level", async () => {
    await using sidecar = await HttpBench.start();
    for (const level of [...LEVELS, undefined]) {
      const client = await LaneClient.connectShared(sidecar);
      using stream = await client.openStream();
      if (level !== undefined) await setLevel(client, level);
      const wanted = level === undefined ? [] : LEVELS.slice(LEVELS.indexOf(level));
      expect(await logDuringCall(client, ...["loud", ...LEVELS].map((each) => log(each)))).toEqual(wanted);
      expect(await endAndRead(client, stream)).toEqual([]);
    }
  });

  it("a message is dropped while no call is in flight", async () => {
    await using sidecar = await HttpBench.start({ flags: ["--log-level", "debug"] });
    const client = await LaneClient.connectShared(sidecar);
    await setLevel(client, "debug");
    using stream = await client.openStream();
    await client.write(log("emergency", "whose?"));
    await sidecar.waitForLog("server notification dropped", ({ method }) => method === "notifications/message");
    expect(await endAndRead(client, stream)).toEqual([]);
  });

  it("a message is sent on the GET stream of the only session with calls", async () => {
    await using sidecar = await HttpBench.start();
    const [client, other] = [await LaneClient.connectShared(sidecar), await LaneClient.connectShared(sidecar)];
    for (const each of [client, other]) await setLevel(each, "debug");
    using stream = await client.openStream();
    using otherStream = await other.openStream();
    const hanging = [client.begin("hang", {}, 2), client.begin("hang", {}, 3)];
    await waitForHanging(client, 2);
    await client.write(log("info", "mine"));
    await client.toolText("release");
    expect((await Promise.all(hanging)).map(({ isStream }) => isStream)).toEqual([false, false]);
    expect([await endAndRead(client, stream), await endAndRead(other, otherStream)]).toEqual([["mine"], []]);
  });

  it("a message is ambiguous, and dropped, while two sessions have calls in flight", async () => {
    await using sidecar = await HttpBench.start({ flags: ["--log-level", "debug"] });
    const [client, other] = [await LaneClient.connectShared(sidecar), await LaneClient.connectShared(sidecar)];
    for (const each of [client, other]) await setLevel(each, "debug");
    using stream = await client.openStream();
    using otherStream = await other.openStream();
    const hanging = [client.callTool("hang"), other.callTool("hang")];
    await waitForHanging(client, 2);
    await client.write(log("emergency", "whose?"));
    await sidecar.waitForLog("server notification dropped", ({ method }) => method === "notifications/message");
    await client.toolText("release");
    await Promise.all(hanging);
    expect([await endAndRead(client, stream), await endAndRead(other, otherStream)]).toEqual([[], []]);
  });

  it("a message is dropped while calls of a session without that level are in flight", async () => {
    await using sidecar = await HttpBench.start();
    const [silent, other] = [await LaneClient.connectShared(sidecar), await LaneClient.connectShared(sidecar)];
    await setLevel(other, "debug");
    using stream = await silent.openStream();
    using otherStream = await other.openStream();
    using call = await silent.begin("raw_line", { line: `${log("emergency", "whose?")}\n{"jsonrpc":"2.0","id":$ID,"result":{}}` });
    expect(call.isStream).toBe(false);
    expect([await endAndRead(silent, stream), await endAndRead(other, otherStream)]).toEqual([[], []]);
  });
});
