import { expect, it } from "vitest";
import { errorData, readError } from "../support/error-reply.ts";
import { QUICK_RESTART, readSeen, timeoutFlags, waitForHanging } from "../support/fixture-server.ts";
import { HttpBench } from "../support/http-bench.ts";

const SMALL_LINES = ["--max-line-bytes", "10000"];
const SKIPPED = "stdout line skipped: not json-rpc";

it("each line that is not JSON-RPC is skipped and logged with the problem", async () => {
  await using sidecar = await HttpBench.start();
  const client = await sidecar.client();
  const cases = [
    ["Server running on stdio", "not JSON"],
    ['{"jsonrpc":"2.0","id":1', "not JSON"],
    ["42", "the message must be a JSON object"],
    ['{"level":"info","msg":"structured"}', '"jsonrpc" must be "2.0"'],
    ['{"jsonrpc":"2.0","id":1}', 'the message has neither "method" nor "result" nor "error"'],
    ["x".repeat(1000), "not JSON"],
  ] as const;
  for (const [line] of cases) await client.toolText("noise", { line });
  for (const [line, reason] of cases) {
    const isLikeMessage = line.startsWith("{");
    const shown = await sidecar.waitForLog(SKIPPED, (each) =>
      isLikeMessage ? each["bytes"] === line.length : each["line"] === (line.length > 200 ? `${line.slice(0, 200)}…` : line),
    );
    expect(shown).toMatchObject({ level: "warn", childPid: sidecar.childPid, generation: 1, reason });
    expect("line" in shown).toBe(!isLikeMessage);
  }
});

it("a flood of such lines is logged in part and counted, and calls are answered", async () => {
  await using sidecar = await HttpBench.start({ flags: QUICK_RESTART });
  const client = await sidecar.client();
  const [noise, echo] = await Promise.all([
    client.toolText("noise", { line: "debug: noise", count: 1000 }),
    client.toolText("echo", { text: "signal" }),
  ]);
  expect([noise, echo]).toEqual(["written", "signal"]);
  await client.callTool("exit");
  await sidecar.waitForLog("mcp server exited");
  expect(sidecar.logLines.filter((line) => line.msg === SKIPPED)).toHaveLength(10);
  const summaries = sidecar.logLines.filter((line) => line.msg === "more stdout lines skipped: not json-rpc");
  expect(summaries).toEqual([expect.objectContaining({ level: "warn", generation: 1, count: 990 })]);
});

it("lines may end with CR LF, and empty lines are allowed", async () => {
  await using sidecar = await HttpBench.start();
  const client = await sidecar.client();
  const line = `\r\n\n{"jsonrpc":"2.0","id":$ID,"result":{"content":[{"type":"text","text":"crlf"}]}}\r\n\r`;
  expect(await client.toolText("raw_line", { line })).toBe("crlf");
  expect(sidecar.logLines.filter((each) => each.msg === SKIPPED)).toEqual([]);
});

it("a response over MAX_LINE_BYTES fails its own request only, and the process goes on", async () => {
  await using sidecar = await HttpBench.start({ flags: SMALL_LINES });
  const client = await sidecar.client();
  const pid = sidecar.childPid;
  const hanging = client.callTool("hang", {}, 2);
  const [wireId] = await waitForHanging(client, 1);
  const [tooLarge, echo] = await Promise.all([
    client.post({ jsonrpc: "2.0", id: "big one", method: "tools/call", params: { name: "big", arguments: { length: 2_000_000 } } }),
    client.toolText("echo", { text: "beside" }),
  ]);
  expect(echo).toBe("beside");
  const { length } = `{"jsonrpc":"2.0","id":${Number(wireId) + 2},"result":{"content":[{"type":"text","text":""}]}}`;
  expect(readError(tooLarge)).toEqual({
    status: 200,
    contentType: "application/json",
    body: {
      jsonrpc: "2.0",
      id: "big one",
      error: {
        code: -32603,
        message: `The response of the MCP server to tools/call was discarded: it has ${2_000_000 + length} bytes, more than 10000. The request was sent and may have taken effect; check before you repeat it.`,
        data: errorData("UPSTREAM_RESPONSE_TOO_LARGE", { sent: true, retrySafe: false, limitBytes: 10_000 }),
      },
    },
  });
  await sidecar.waitForLog("stdout line discarded: longer than the limit", (line) => line["bytes"] === 2_000_000 + length);
  await client.toolText("release");
  expect((await hanging).result?.content?.[0]?.text).toBe(`released ${wireId}`);
  expect(sidecar.childPid).toBe(pid);
  expect(await readSeen(client)).not.toContain(expect.stringContaining("cancelled"));
});

it("a late response over MAX_LINE_BYTES is dropped like any late response", async () => {
  await using sidecar = await HttpBench.start({ flags: [...SMALL_LINES, ...timeoutFlags(600)] });
  const client = await sidecar.client();
  await client.callTool("hang");
  const [wireId] = await waitForHanging(client, 1);
  await client.toolText("noise", { line: `{"jsonrpc":"2.0","id":${wireId},"result":{"x":"${"x".repeat(20_000)}"}}` });
  expect(await sidecar.waitForLog("late answer dropped")).toMatchObject({ requestId: wireId, reason: "timeout", count: 1 });
});
