import { describe, expect, it } from "vitest";
import { disposeAfterAll } from "../support/dispose-after-all.ts";
import { waitForHanging } from "../support/fixture-server.ts";
import { HttpBench } from "../support/http-bench.ts";
import { send } from "../support/http-client.ts";
import { type JsonRpcMessage, progressTokenOf, readResponse, resultText } from "../support/json-rpc.ts";
import { LaneClient } from "../support/lane-client.ts";
import { META } from "../support/modern-client.ts";

const RESERVED = Object.values(META)
  .map((key) => `"${key}":${key === META.protocolVersion ? '"2026-07-28"' : key === META.logLevel ? '"info"' : "{}"}`)
  .join(",");

describe("a request to a server of sessions", async () => {
  const sidecar = disposeAfterAll(await HttpBench.start());
  const client = sidecar.modernClient();

  /** Sends a call of `received` with these members of its params. @returns the line that the server has received, with the id 5. */
  async function received(members: string): Promise<string> {
    const { headers } = client.compose("tools/call", { name: "received" });
    const body = `{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"received","arguments":{},${members}}}`;
    const reply = await send(sidecar.url, { headers, body });
    return resultText(readResponse(reply)).replace(/"id":\d+/, '"id":5');
  }

  function line(members: string): string {
    return `{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"received","arguments":{},${members}}}`;
  }

  it("trace keys and unknown keys of _meta arrive byte for byte", async () => {
    const kept = [
      '"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"',
      '"tracestate" : "a=1,b=2"',
      '"baggage":"k=\\u0076;p"',
      '"com.example/x":{"a":1.0,"big":12345678901234567890,"a":[ ]}',
      '"io.modelcontextprotocolx/y":null',
    ].join(",");
    expect(await received(`"_meta":{${kept},${RESERVED}}`)).toBe(line(`"_meta":{${kept}}`));
    expect(await received(`"_meta":{${RESERVED},${kept}}`)).toBe(line(`"_meta":{${kept}}`));
  });

  it("no reserved key of _meta reaches the server, not even an unknown or escaped one", async () => {
    const others = '"io.modelcontextprotocol/unknown":{"deep":[1,{}]},"io.modelcontextprotocol\\/escaped":1';
    expect(await received(`"_meta":{${RESERVED},${others}}`)).toBe(line('"_meta":{}'));
    expect(await received(`"_meta":{"own":1,${others},${RESERVED},"last":2}`)).toBe(line('"_meta":{"own":1,"last":2}'));
  });

  it("answers without a state do not reach the server: it has asked nothing", async () => {
    const answers = '"input\\u0052esponses":{"k":{"action":"accept"}}';
    expect(await received(`${answers},"_meta":{${RESERVED}}`)).toBe(line('"_meta":{}'));
    expect(await received(`"_meta":{${RESERVED}},${answers}`)).toBe(line('"_meta":{}'));
  });

  it("arguments with the names of removed members stay", async () => {
    const args = { inputResponses: 1, requestState: "x", _meta: { [META.clientInfo]: 1 } };
    const text = await client.toolText("received", args);
    expect((JSON.parse(text) as JsonRpcMessage).params?.["arguments"]).toEqual(args);
  });

  it.each(["mine", 7, "7"])("the progress token %j is replaced for the server, and restored with its type", async (progressToken) => {
    const reply = await client.callTool("progress", { steps: 2 }, { id: "p", meta: { progressToken } });
    expect(reply.notifications).toEqual(
      [1, 2].map((progress) => ({ jsonrpc: "2.0", method: "notifications/progress", params: { progressToken, progress } })),
    );
    const seen = JSON.parse(await client.toolText("received", {}, { meta: { progressToken } })) as JsonRpcMessage;
    expect([typeof progressTokenOf(seen), progressTokenOf(seen)]).toEqual(["number", seen.id]);
  });

  it.each<string | number>(["a", "1", 1, 0, -1, 1.5, ""])("the id %j is restored with its type", async (id) => {
    expect((await client.callTool("echo", { text: "x" }, { id })).id).toBe(id);
  });

  it("the notifications of the server that belong to no request are dropped", async () => {
    const control = await LaneClient.connectShared(sidecar);
    const changed = { jsonrpc: "2.0", method: "notifications/tools/list_changed" };
    const foreign = { jsonrpc: "2.0", method: "notifications/progress", params: { progressToken: 999_999, progress: 1 } };
    const call = client.begin("tools/call", { name: "hang", arguments: {} }, { meta: { progressToken: "t" } });
    for (const message of [changed, foreign]) await control.write(message);
    while ((JSON.parse(await control.toolText("hanging")) as unknown[]).length === 0);
    await control.toolText("release");
    const stream = await call;
    expect([stream.isStream, (await stream.answer()).result?.["resultType"]]).toEqual([false, "complete"]);
  });
});

describe("the form of a response", async () => {
  const sidecar = disposeAfterAll(await HttpBench.start());
  const client = sidecar.modernClient();

  it("progress is left out for a client that accepts JSON only", async () => {
    const call = { headers: { Accept: "application/json" }, meta: { progressToken: 1 } };
    const reply = await client.callTool("progress", { steps: 2 }, call);
    expect([reply.headers["content-type"], reply.notifications, reply.result?.["resultType"]]).toEqual([
      "application/json",
      [],
      "complete",
    ]);
  });

  it("a session id is neither read nor created, also that of another client", async () => {
    const session = await sidecar.client();
    for (const id of ["gone", session.sessionId]) {
      const replies = [
        await client.callTool("echo", { text: "x" }, { headers: { "Mcp-Session-Id": id } }),
        await client.request("server/discover", {}, { headers: { "Mcp-Session-Id": id } }),
        await client.request("ping", {}, { headers: { "Mcp-Session-Id": id } }),
        await client.callTool("progress", {}, { headers: { "Mcp-Session-Id": id }, meta: { progressToken: 1 } }),
      ];
      expect(replies.map(({ status }) => status)).toEqual([200, 200, 404, 200]);
      expect(replies.map(({ headers }) => headers["mcp-session-id"])).toEqual([undefined, undefined, undefined, undefined]);
    }
    expect((await session.request("ping")).status).toBe(200);
  });
});

describe("a slow call", () => {
  it("the response becomes an event stream with comments, without event ids", async () => {
    await using sidecar = await HttpBench.start({ flags: ["--stream-after-ms", "1", "--keep-alive-ms", "20"] });
    const control = await sidecar.client({ accept: "application/json" });
    using stream = await sidecar.modernClient().beginTool("hang", {}, { id: "slow", headers: { "Last-Event-ID": "1.1" } });
    expect([stream.status, stream.headers["content-type"], stream.headers["x-accel-buffering"]]).toEqual([200, "text/event-stream", "no"]);
    expect(stream.headers["mcp-session-id"]).toBeUndefined();
    const comments = [await stream.block(), await stream.block()];
    expect(comments.map((block) => [typeof block?.comment, block?.data, block?.id])).toEqual([
      ["string", undefined, undefined],
      ["string", undefined, undefined],
    ]);
    await control.callTool("release");
    expect(await stream.next()).toMatchObject({ id: "slow", result: { resultType: "complete" } });
    expect(stream.lastEventId).toBe("");
  });

  it("a client that accepts JSON only waits for its result", async () => {
    await using sidecar = await HttpBench.start({ flags: ["--stream-after-ms", "1"] });
    const control = await sidecar.client({ accept: "application/json" });
    const reply = sidecar.modernClient().callTool("hang", {}, { headers: { Accept: "application/json" } });
    await waitForHanging(control, 1);
    await control.callTool("release");
    expect([(await reply).status, (await reply).headers["content-type"]]).toEqual([200, "application/json"]);
  });
});
