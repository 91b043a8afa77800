import { describe, expect, it } from "vitest";
import { disposeAfterAll } from "../support/dispose-after-all.ts";
import { waitForHanging } from "../support/fixture-server.ts";
import { HttpBench } from "../support/http-bench.ts";

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
