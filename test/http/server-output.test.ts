import { expect, it } from "vitest";
import { errorData, readError } from "../support/error-reply.ts";
import { QUICK_RESTART, readSeen, timeoutFlags, waitForHanging } from "../support/fixture-server.ts";
import { HttpBench } from "../support/http-bench.ts";
import type { LogLine, RunningSidecar } from "../support/running-sidecar.ts";
import { readReadiness } from "../support/status.ts";
import { toolCall } from "../support/mcp-client.ts";

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
    client.post(toolCall("big", { length: 2_000_000 }, "big one")),
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

const ENDLESS_RESTARTS = ["--restart-backoff-ms", "1", "--restart-max-ms", "20", "--crash-loop-exits", "1000"];

function stderrLines(sidecar: RunningSidecar): LogLine[] {
  return sidecar.logLines.filter((line) => line["stream"] === "stderr");
}

it("each line is logged with its process and generation", async () => {
  await using sidecar = await HttpBench.start({ flags: ENDLESS_RESTARTS });
  const client = await sidecar.client();
  const firstPid = sidecar.childPid;
  await client.toolText("stderr", { text: "one\n\n  two é€😀 \r\nthree" });
  await sidecar.waitForLog("three");
  expect(stderrLines(sidecar).map((line) => line.msg)).toEqual(["one", "  two é€😀 ", "three"]);
  for (const line of stderrLines(sidecar)) {
    expect(line).toMatchObject({ level: "info", childPid: firstPid, generation: 1, stream: "stderr", pid: process.pid });
    expect(line).not.toHaveProperty("isPartial");
  }

  await client.callTool("kill");
  await client.toolText("stderr", { text: "again" });
  expect(await sidecar.waitForLog("again")).toMatchObject({ childPid: sidecar.childPid, generation: 2, stream: "stderr" });
  expect(sidecar.childPid).not.toBe(firstPid);
});

it("a long line is logged completely, in pieces of 16 KiB", async () => {
  await using sidecar = await HttpBench.start();
  await (await sidecar.client()).toolText("stderr", { length: 40_000 });
  const pieces = await sidecar.waitFor(() => (stderrLines(sidecar).length > 2 ? stderrLines(sidecar) : undefined), "three pieces");
  expect(pieces.map(({ msg }) => msg.length)).toEqual([16_384, 16_384, 40_000 - 2 * 16_384]);
  expect(pieces[0]).toMatchObject({ isPartial: true });
});

it("100 MB in a minute become 25 MB of log, with a count of the rest", async () => {
  await using sidecar = await HttpBench.start({ flags: ENDLESS_RESTARTS });
  const client = await sidecar.client();
  for (let round = 0; round < 10; round++) {
    expect(await client.toolText("stderr", { length: 1000, count: 10_000 })).toBe("written");
  }
  await client.callTool("stderr_and_exit", { count: 20, code: 3 });
  // The last lines are left out, but still show the cause of the exit.
  const { stderrTail } = await sidecar.waitForLog("mcp server exited");
  expect(stderrTail).toEqual(Array.from({ length: 20 }, (_, index) => `last words ${1 + index}`));
  const leftOut = sidecar.logLines.filter(({ msg }) => msg === "stderr lines left out: over the limit of a minute");
  expect(leftOut[0]).toMatchObject({ level: "warn", generation: 1 });
  expect(leftOut[0]).not.toHaveProperty("stream");
  const sum = (lines: readonly LogLine[], field: string): number => lines.reduce((total, line) => total + Number(line[field]), 0);
  const shown = stderrLines(sidecar);
  expect(shown.length + sum(leftOut, "count")).toBe(100_020);
  expect(sum(leftOut, "bytes")).toBeGreaterThanOrEqual((sum(leftOut, "count") - 20) * 1000);
  expect(sum(leftOut, "bytes")).toBeLessThanOrEqual(sum(leftOut, "count") * 1000);
  const shownBytes = shown.reduce((total, { msg }) => total + msg.length, 0);
  // A minute may end meanwhile.
  expect(shownBytes).toBeLessThan(25_000_000 * leftOut.length);
});

it("the last lines are read before the exit is reported, and become its reason", async () => {
  await using sidecar = await HttpBench.start({ flags: ENDLESS_RESTARTS });
  const client = await sidecar.client();
  for (let generation = 1; generation <= 10; generation++) {
    await client.callTool("stderr_and_exit", { count: 1000, code: 3 });
    const { stderrTail } = await sidecar.waitForLog("mcp server exited", (line) => line["generation"] === generation);
    expect(stderrTail).toEqual(Array.from({ length: 20 }, (_, index) => `last words ${981 + index}`));
    const lines = stderrLines(sidecar).filter((line) => line["generation"] === generation);
    expect(lines.map((line) => line.msg)).toEqual(Array.from({ length: 1000 }, (_, index) => `last words ${index + 1}`));
  }
  expect((await readReadiness(sidecar)).lastExit?.stderrLastLine).toBe("last words 1000");
});
