import { expect, it } from "vitest";
import { errorData, readError } from "../support/error-reply.ts";
import { readSeen, timeoutFlags, waitForHanging } from "../support/fixture-server.ts";
import { RawConnection, getBytes, postBytes } from "../support/raw-connection.ts";
import { HttpBench } from "../support/http-bench.ts";

const SHORT = timeoutFlags(600);

it("the time runs from acceptance, even if the server does not read", async () => {
  await using sidecar = await HttpBench.start({ flags: timeoutFlags(600, ["stop_reading"]) });
  const client = await sidecar.client();
  await client.toolText("stop_reading");
  // The first one to arrive is being written into a full pipe, the others are not.
  const padding = "p".repeat(300_000);
  const replies = await Promise.all([1, 2, 3].map((id) => client.callTool("echo", { padding }, id)));
  expect(replies.map((reply) => reply.error?.code)).toEqual([-32001, -32001, -32001]);
  const unsent = replies.filter((reply) => reply.error?.data?.["sent"] === false);
  expect(unsent).toHaveLength(2);
  for (const reply of unsent) {
    expect(reply.error?.message).toBe(
      "The MCP server did not answer tools/call of echo within 0.6 s (CLAW_MCP_STDIO_REQUEST_TIMEOUT_MS). The request was not sent; it is safe to retry.",
    );
    expect(reply.error?.data).toEqual(errorData("REQUEST_TIMEOUT", { sent: false, retrySafe: true, timeoutMs: 600 }));
  }
});

it("a late response is dropped, counted and logged with its cause", async () => {
  await using sidecar = await HttpBench.start({ flags: SHORT });
  const client = await sidecar.client();
  await Promise.all([client.callTool("hang"), client.callTool("hang")]);
  const wireIds = await waitForHanging(client, 2);
  expect(await client.toolText("release")).toBe("released");
  const second = await sidecar.waitForLog("late answer dropped", (line) => line["count"] === 2);
  const first = await sidecar.waitForLog("late answer dropped", (line) => line["count"] === 1);
  expect([first["requestId"], second["requestId"]]).toEqual(wireIds.toReversed());
  expect([first["reason"], second["reason"]]).toEqual(["timeout", "timeout"]);
  expect(sidecar.logLines.filter((line) => line.msg === "answer dropped: no such request")).toEqual([]);
});

it("a request whose body took all the time is rejected without being sent", async () => {
  await using sidecar = await HttpBench.start({ flags: SHORT });
  const client = await sidecar.client();
  using connection = await RawConnection.open(sidecar.origin);
  const bytes = postBytes({ jsonrpc: "2.0", id: "late", method: "x-vendor/late" }, client.sessionId);
  await connection.write(getBytes("/livez") + bytes.slice(0, -5));
  expect((await connection.reply()).status).toBe(200);
  // Accepted after the one above, and so timed out after it.
  expect((await client.callTool("hang")).error?.data?.["code"]).toBe("REQUEST_TIMEOUT");
  await connection.write(bytes.slice(-5));
  const reply = readError(await connection.reply());
  expect(reply).toMatchObject({
    status: 200,
    body: { id: "late", error: { data: errorData("REQUEST_TIMEOUT", { sent: false, retrySafe: true }) } },
  });
  expect(await readSeen(client)).not.toContain("x-vendor/late");
});
