import { describe, expect, it } from "vitest";
import { disposeAfterAll } from "../support/dispose-after-all.ts";
import { Gate } from "../support/fixture-server.ts";
import { answerOf, HeldCall, progressOf } from "../support/held-call.ts";
import { send } from "../support/http-client.ts";
import { readMessages } from "../support/json-rpc.ts";
import { RawConnection, postBytes } from "../support/raw-connection.ts";
import { HttpBench } from "../support/http-bench.ts";
import { initializeRequest, toolCall } from "../support/mcp-client.ts";

const CALL_WITH_PROGRESS = toolCall("progress", { steps: 2 }, 7, { progressToken: "mine" });
const PRIMING = { id: expect.stringMatching(/./) as string, retry: expect.any(Number) as number, data: "" };
const STREAM_HEADERS = { "content-type": "text/event-stream", "cache-control": "no-cache, no-transform", "x-accel-buffering": "no" };

describe("the response to a POST", async () => {
  const sidecar = disposeAfterAll(await HttpBench.start());
  const client = await sidecar.client();

  it("the form is a stream from the first progress on, with an id to resume", async () => {
    const call = await HeldCall.start(client, client);
    await call.progress(1);
    using stream = await call.stream;
    expect([stream.status, stream.headers]).toMatchObject([200, { ...STREAM_HEADERS, "mcp-session-id": client.sessionId }]);
    expect(stream.headers).not.toHaveProperty("content-length");
    expect(await stream.block()).toEqual(PRIMING);
    const first = await stream.block();
    expect(first).toEqual({ id: expect.stringMatching(/./) as string, event: "message", data: JSON.stringify(progressOf(1)) });
    await call.progress(2);
    expect(await stream.messages(1)).toEqual([progressOf(2)]);
    await call.answer();
    expect(await stream.rest()).toEqual([answerOf()]);
  });

  it("event ids are unique in a session, across streams", async () => {
    const replies = await Promise.all(Array.from({ length: 20 }, () => client.post(CALL_WITH_PROGRESS)));
    const ids = replies.flatMap(({ body }) => [...body.matchAll(/^id: (.*)$/gm)].map(([, id]) => id));
    expect(ids).toHaveLength(20 * 4);
    expect(new Set(ids).size).toBe(ids.length);
  });

  it("an HTTP/1.0 client gets a stream that ends with the connection", async () => {
    using connection = await RawConnection.open(sidecar.origin);
    await connection.write(postBytes(CALL_WITH_PROGRESS, client.sessionId).replace("HTTP/1.1", "HTTP/1.0"));
    const { text } = await connection.rest();
    expect(text.slice(0, text.indexOf("\r\n\r\n"))).not.toMatch(/transfer-encoding/i);
    expect(text.slice(text.indexOf("\r\n\r\n") + 4)).toMatch(/^id: .*\nretry: .*\ndata: \n\n(?:id: .*\nevent: message\ndata: .*\n\n){3}$/);
  });

  describe("the response to a client that does not accept streams", async () => {
    const hasty = disposeAfterAll(await HttpBench.start({ flags: ["--stream-after-ms", "1"] }));

    it.each([
      ["application/json"],
      ["*/*"],
      ["application/*"],
      ["application/json, text/*"],
      ["application/json, */*;q=0.1"],
      ["application/json, text/event-stream;q=0"],
      ["application/json, text/event-streams"],
      [undefined],
    ])("the form is JSON even if messages precede the response: Accept %j", async (accept) => {
      const own = await hasty.client();
      const headers = {
        "Content-Type": "application/json",
        "Mcp-Session-Id": own.sessionId,
        ...(accept === undefined ? {} : { Accept: accept }),
      };
      const reply = await send(own.url, { headers, body: JSON.stringify(CALL_WITH_PROGRESS) });
      expect([reply.status, reply.headers["content-type"], JSON.parse(reply.body)]).toEqual([200, "application/json", answerOf()]);
    });

    it("the form is JSON even after a long silence", async () => {
      const own = await hasty.client();
      const call = await HeldCall.start(own, own, { headers: { Accept: "application/json" } });
      // By now, a client that accepts streams has got one, although its request came later.
      const other = await HeldCall.start(own, own, { id: 8 });
      expect((await other.stream).headers["content-type"]).toBe("text/event-stream");
      await call.progress(1);
      await call.answer();
      using answered = await call.stream;
      expect([answered.status, answered.headers["content-type"]]).toEqual([200, "application/json"]);
      await other.answer();
    });
  });

  it.each(["application/json;q=0.1, text/event-stream", "TEXT/Event-Stream, Application/JSON", "*/*, text/event-stream;x=y"])(
    "the form may be a stream with Accept: %s",
    async (accept) => {
      const reply = await client.post(CALL_WITH_PROGRESS, { headers: { Accept: accept } });
      expect(reply.headers["content-type"]).toBe("text/event-stream");
      expect(readMessages(reply)).toEqual([progressOf(1), progressOf(2), answerOf()]);
    },
  );

  it.each([
    ["2025-11-25", undefined, 1],
    ["2025-11-25", "2025-03-26", 1],
    ["2025-06-18", undefined, 0],
    ["2025-06-18", "2025-11-25", 0],
    ["2025-03-26", undefined, 0],
    ["2024-11-05", "2025-11-25", 0],
  ])("a stream begins as in revision %s, regardless of MCP-Protocol-Version (%s)", async (negotiated, header, primings) => {
    const own = await sidecar.client({ protocolVersion: negotiated });
    const headers: Record<string, string> = header === undefined ? {} : { "MCP-Protocol-Version": header };
    using stream = await own.postForStream(CALL_WITH_PROGRESS, headers);
    const blocks = [await stream.block(), await stream.block(), await stream.block()];
    // Parsers of older revisions reject an event without data.
    expect(blocks.filter((block) => block?.data === "")).toHaveLength(primings);
    expect(blocks.filter((block) => block?.retry !== undefined)).toHaveLength(primings);
    for (const block of blocks) expect(block?.id).toMatch(/./);
  });
});

describe("a long silence", () => {
  it("a stream begins, and comments keep it alive, if the client accepts streams", async () => {
    await using sidecar = await HttpBench.start({ flags: ["--stream-after-ms", "50", "--keep-alive-ms", "20"] });
    const client = await sidecar.client();
    const call = await HeldCall.start(client, client, { token: null });
    using stream = await call.stream;
    expect(stream.headers).toMatchObject(STREAM_HEADERS);
    expect([await stream.block(), await stream.block(), await stream.block()]).toEqual([
      PRIMING,
      { comment: "keep-alive" },
      { comment: "keep-alive" },
    ]);
    await call.answer();
    expect(await stream.rest()).toEqual([answerOf()]);
  });

  it("the stream of a client of an older revision begins without an event", async () => {
    await using sidecar = await HttpBench.start({ flags: ["--stream-after-ms", "50", "--keep-alive-ms", "20"] });
    const client = await sidecar.client({ protocolVersion: "2025-06-18" });
    const call = await HeldCall.start(client, client, { token: null });
    using stream = await call.stream;
    expect([await stream.block(), await stream.block()]).toEqual([{ comment: "open" }, { comment: "keep-alive" }]);
    await call.answer();
    expect(await stream.rest()).toEqual([answerOf()]);
  });

  it("no stream begins while the request is held, so a rejection is still a 503", async () => {
    await using gate = await Gate.create();
    await gate.open();
    const flags = ["--stream-after-ms", "20", "--hold-timeout-ms", "1000", "--restart-backoff-ms", "1", "--restart-max-ms", "1"];
    await using sidecar = await HttpBench.start({ mode: "gated", env: gate.env, flags });
    const client = await sidecar.client();
    await gate.close();
    await client.callTool("exit");
    await sidecar.waitForLog("mcp server started", (line) => line["generation"] === 2);
    const echo = toolCall("echo", { text: "late" }, 7);
    using refused = await client.postForStream(echo);
    expect([refused.status, refused.headers["content-type"]]).toEqual([503, "application/json"]);
    const held = client.callTool("echo", { text: "late" });
    await gate.open();
    expect((await held).status).toBe(200);
  });

  it("the response to initialize is never a stream", async () => {
    await using gate = await Gate.create();
    await using sidecar = await HttpBench.start({ mode: "gated", env: gate.env, untilReady: false, flags: ["--stream-after-ms", "1"] });
    using connection = await RawConnection.open(sidecar.origin);
    await connection.write(postBytes(initializeRequest()));
    // Another request on another connection. By its response, the first one has been read and the silence was long enough.
    for (let count = 0; count < 3; count++) expect((await send(`${sidecar.origin}/healthz`, { method: "GET" })).status).toBe(503);
    await gate.open();
    const reply = await connection.reply();
    expect([reply.status, reply.headers["content-type"]]).toEqual([200, "application/json"]);
    expect(reply.headers["mcp-session-id"]).toMatch(/./);
  });
});
