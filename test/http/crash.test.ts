import { describe, expect, it } from "vitest";
import { crash } from "../support/crash.ts";
import { errorData, readError } from "../support/error-reply.ts";
import { readSeen, readWhere, waitForHanging, waitForSeen } from "../support/in-flight.ts";
import { HttpBench } from "../support/http-bench.ts";

/** Avoids the failed state, because these servers crash often. */
const QUICK_RESTART = ["--restart-backoff-ms", "1", "--restart-max-ms", "20", "--crash-loop-exits", "1000"];
/** A pause longer than any test: requests are answered before the next generation starts. */
const NO_RESTART = ["--restart-backoff-ms", "600000", "--restart-max-ms", "600000"];

function hang(id: number): object {
  return { jsonrpc: "2.0", id, method: "tools/call", params: { name: "hang", arguments: {} } };
}

describe("a crash", () => {
  it.each([
    { how: "exits with code 3", tool: "exit", args: { code: 3 }, data: { exitCode: 3 }, reason: "exited with code 3" },
    { how: "is killed", tool: "kill", args: {}, data: { signal: "SIGKILL" }, reason: "ended by SIGKILL" },
  ])("calls in flight fail at once with the exit reason if the server $how", async ({ tool, args, data, reason }) => {
    await using sidecar = await HttpBench.start({ flags: NO_RESTART });
    const client = await sidecar.client();
    const inFlight = [client.post(hang(7)), client.post(hang(7))];
    await waitForHanging(client, 2);
    const last = client.post({ jsonrpc: "2.0", id: 7, method: "tools/call", params: { name: tool, arguments: args } });
    for (const reply of await Promise.all([...inFlight, last])) {
      expect(readError(reply)).toEqual({
        status: 200,
        contentType: "application/json",
        body: {
          jsonrpc: "2.0",
          id: 7,
          error: {
            code: -32603,
            message: `The MCP server stopped during tools/call (${reason}). The request was sent and may have taken effect; check before you repeat it.`,
            data: errorData("UPSTREAM_EXITED", { sent: true, retrySafe: false, ...data }),
          },
        },
      });
    }
    expect(await sidecar.waitForLog("requests in flight failed")).toMatchObject({ generation: 1, count: 3, reason });
  });

  it.each(["tools/list", "resources/read", "prompts/get", "completion/complete"])(
    "a failed %s is safe to retry, because it only reads",
    async (method) => {
      await using sidecar = await HttpBench.start({ flags: [...NO_RESTART, "--retry", "off"] });
      const client = await sidecar.client();
      await client.callTool("mute", { method });
      const inFlight = client.request(method);
      await waitForSeen(client, method);
      await crash(sidecar);
      const { status, error } = await inFlight;
      expect(status).toBe(200);
      expect(error?.data).toEqual(errorData("UPSTREAM_EXITED", { sent: true, retrySafe: true, signal: "SIGKILL" }));
      expect(error?.message).toBe(
        `The MCP server stopped during ${method} (ended by SIGKILL). The request was sent, but only reads; it is safe to retry.`,
      );
    },
  );

  it.each([
    ["x-vendor/anything", "not safe to retry", false],
    ["logging/setLevel", "safe to retry, because it is idempotent", true],
    ["resources/subscribe", "safe to retry, because it is idempotent", true],
  ])("a failed %s is %s", async (method, _, retrySafe) => {
    await using sidecar = await HttpBench.start({ flags: NO_RESTART });
    const client = await sidecar.client();
    await client.callTool("mute", { method });
    const inFlight = client.request(method);
    await waitForSeen(client, method);
    await crash(sidecar);
    expect((await inFlight).error?.data).toEqual(errorData("UPSTREAM_EXITED", { sent: true, retrySafe, signal: "SIGKILL" }));
  });

  it("a call that was sent is not retried", async () => {
    await using sidecar = await HttpBench.start({ flags: QUICK_RESTART });
    const client = await sidecar.client();
    const inFlight = client.post(hang(2));
    await waitForHanging(client, 1);
    await crash(sidecar);
    await inFlight;
    expect(await readSeen(client)).toEqual(["initialize", "notifications/initialized", "tools/call"]);
  });

  it("a response written just before the exit is delivered", async () => {
    await using sidecar = await HttpBench.start({ flags: QUICK_RESTART });
    const client = await sidecar.client();
    for (let generation = 1; generation <= 20; generation++) {
      expect(await client.toolText("answer_and_exit", { code: generation % 2 })).toBe("last words");
      await sidecar.waitForLog("mcp server exited", (line) => line["generation"] === generation);
    }
  });

  it("a response without its final newline is delivered", async () => {
    await using sidecar = await HttpBench.start({ flags: NO_RESTART });
    const client = await sidecar.client();
    expect(await client.toolText("answer_and_exit", { lineEnd: "" })).toBe("last words");
  });

  it("responses written before a crash are delivered, and other calls fail", async () => {
    await using sidecar = await HttpBench.start({ flags: QUICK_RESTART });
    const client = await sidecar.client();
    const hanging = client.callTool("hang");
    await waitForHanging(client, 1);
    expect(await client.toolText("answer_and_exit", { code: 3 })).toBe("last words");
    expect((await hanging).error?.data).toEqual(errorData("UPSTREAM_EXITED", { sent: true, retrySafe: false, exitCode: 3 }));
  });

  it("sessions of all clients survive a crash", async () => {
    await using sidecar = await HttpBench.start({ flags: QUICK_RESTART });
    const clients = await Promise.all([sidecar.client(), sidecar.client(), sidecar.client()]);
    const { pid } = await readWhere(await sidecar.client());
    await crash(sidecar);
    const replies = await Promise.all(clients.map((client) => readWhere(client)));
    expect(new Set(replies.map((where) => where.pid))).toEqual(new Set([await sidecar.waitForChild(pid)]));
  });

  it("every call during repeated crashes gets its result or the exit error", async () => {
    await using sidecar = await HttpBench.start({ flags: QUICK_RESTART });
    const client = await sidecar.client();
    const calls = Array.from({ length: 40 }, async (_, index) => {
      const reply = await (index % 4 === 0 ? client.callTool("kill") : client.callTool("echo", { text: `${index}` }));
      return reply.result?.content?.[0]?.text ?? reply.error?.data?.["code"];
    });
    const outcomes = await Promise.all(calls);
    for (const [index, outcome] of outcomes.entries()) {
      expect(index % 4 === 0 ? ["UPSTREAM_EXITED"] : [`${index}`, "UPSTREAM_EXITED"]).toContain(outcome);
    }
    expect(await client.toolText("echo", { text: "after" })).toBe("after");
  });
});
