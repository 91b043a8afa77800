import { expect, it } from "vitest";
import { readReadiness } from "../support/status.ts";
import { HttpBench } from "../support/http-bench.ts";
import type { LogLine, RunningSidecar } from "../support/running-sidecar.ts";

const QUICK_RESTART = ["--restart-backoff-ms", "1", "--restart-max-ms", "20", "--crash-loop-exits", "1000"];

function stderrLines(sidecar: RunningSidecar): LogLine[] {
  return sidecar.logLines.filter((line) => line["stream"] === "stderr");
}

it("each line is logged with its process and generation", async () => {
  await using sidecar = await HttpBench.start({ flags: QUICK_RESTART });
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
  await using sidecar = await HttpBench.start({ flags: QUICK_RESTART });
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
  await using sidecar = await HttpBench.start({ flags: QUICK_RESTART });
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
