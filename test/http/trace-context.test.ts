import { describe, expect, it } from "vitest";
import { disposeAfterAll } from "../support/dispose-after-all.ts";
import { type JsonRpcMessage, readResponse, resultText } from "../support/json-rpc.ts";
import { LegacySseClient } from "../support/legacy-sse-client.ts";
import { HttpBench } from "../support/http-bench.ts";

const TRACE = {
  traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
  tracestate: "rojo=00f067aa0ba902b7,congo@x=t61rcWkgMzE",
  baggage: "userId=alice,serverNode=DF%2028;ttl=5",
};
const TRACE_TEXT = JSON.stringify(TRACE).slice(1, -1);
const OTHER_PARENT = "00-11111111111111111111111111111111-2222222222222222-00";

/** Returns the body of a call of `received`, which answers with the line that the server has received. @param params JSON text after its arguments. */
function call(params = "", args = "{}"): string {
  return `{"jsonrpc":"2.0" ,"id":5,"method":"tools/call","params":{"name":"received","arguments":${args}${params}}}`;
}

function metaOf(line: string): unknown {
  return (JSON.parse(line) as JsonRpcMessage).params?.["_meta"];
}

describe("the trace context of an HTTP request to a server with sessions", async () => {
  const sidecar = disposeAfterAll(await HttpBench.start({ flags: ["--legacy-sse"] }));
  const client = await sidecar.client();

  async function received(body: string, headers: Record<string, string> = TRACE): Promise<string> {
    return resultText(readResponse(await client.post(body, { headers })));
  }

  it("the trace context reaches the server in _meta, and all other bytes stay", async () => {
    const args = '{"n":9007199254740993, "s":"caf\\u00e9"}';
    for (const [sent, expected] of [
      [call("", args), call("", args).replace('"params":{', `"params":{"_meta":{${TRACE_TEXT}},`)],
      [call(',"_meta" : { }', args), call(`,"_meta" : {${TRACE_TEXT} }`, args)],
      [call(',"_meta":{ "a":1.0}', args), call(`,"_meta":{${TRACE_TEXT}, "a":1.0}`, args)],
    ] as const) {
      expect((await received(sent)).replace(/"id":\d+/, '"id":5')).toBe(expected);
    }
  });

  it("a request without params gets params for it", async () => {
    const reply = readResponse(await client.post({ jsonrpc: "2.0", id: 1, method: "example/echo" }, { headers: TRACE }));
    expect(reply.result?.["params"]).toEqual({ _meta: TRACE });
  });

  it("what the client has put into _meta stays, and a state comes only with its parent", async () => {
    expect(metaOf(await received(call(`,"_meta":{"traceparent":"${OTHER_PARENT}"}`)))).toEqual({
      traceparent: OTHER_PARENT,
      baggage: TRACE.baggage,
    });
    expect(metaOf(await received(call(',"_meta":{"b\\u0061ggage":null}')))).toEqual({ ...TRACE, baggage: null });
    const all = JSON.stringify({ traceparent: OTHER_PARENT, baggage: "a=b" });
    expect(metaOf(await received(call(`,"_meta":${all}`)))).toEqual(JSON.parse(all));
    expect(metaOf(await received(call(), { tracestate: TRACE.tracestate, baggage: "a=b" }))).toEqual({ baggage: "a=b" });
  });

  it.each([
    { traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-1" },
    { traceparent: "00-00000000000000000000000000000000-b7ad6b7169203331-01" },
    { traceparent: "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01", tracestate: "a=b" },
    { traceparent: `${TRACE.traceparent}, ${TRACE.traceparent}` },
    { baggage: `a=${"b".repeat(8192)}` },
    { baggage: "a" },
    { baggage: 'a=b"c' },
    { tracestate: "a=b" },
  ])("headers that are not valid are left out: %j", async (headers: Record<string, string>) => {
    expect((await received(call(), headers)).replace(/"id":\d+/, '"id":5')).toBe(call());
  });

  it("a state that is too long or malformed is left out alone", async () => {
    const { traceparent } = TRACE;
    for (const tracestate of [`a=${"b".repeat(511)}`, "A=b", "a"]) {
      expect(metaOf(await received(call(), { traceparent, tracestate }))).toEqual({ traceparent });
    }
  });

  it("the trace context reaches the server with long messages, in batches and by HTTP+SSE", async () => {
    const text = "x".repeat(100_000);
    const long = JSON.parse(await received(call("", JSON.stringify({ text })))) as JsonRpcMessage;
    expect(long.params).toEqual({ name: "received", arguments: { text }, _meta: TRACE });
    const batching = await sidecar.client({ protocolVersion: "2025-03-26" });
    const batch = await batching.post(`[${call()},${call().replace("5", '"b"')}]`, { headers: TRACE });
    expect((JSON.parse(batch.body) as JsonRpcMessage[]).map((response) => metaOf(resultText(response)))).toEqual([TRACE, TRACE]);
    using old = await LegacySseClient.connect(sidecar.origin, {}, TRACE);
    expect(metaOf(resultText(await old.request("tools/call", { name: "received" })))).toEqual(TRACE);
  });

  it("the trace context of a client without a session reaches the server", async () => {
    const modern = sidecar.modernClient();
    const line = await modern.toolText("received", {}, { headers: TRACE });
    expect(metaOf(line)).toEqual(TRACE);
  });
});

describe("the trace context of an HTTP request to a server without sessions", async () => {
  const sidecar = disposeAfterAll(await HttpBench.start({ mode: "modern-only" }));

  it("the trace context reaches the server from clients with and without a session", async () => {
    const client = await sidecar.client();
    const inSession = readResponse(await client.post(call(), { headers: TRACE }));
    expect(metaOf(resultText(inSession))).toMatchObject(TRACE);
    expect(metaOf(await sidecar.modernClient().toolText("received", {}, { headers: TRACE }))).toMatchObject(TRACE);
  });
});
