import { describe, expect, it } from "vitest";
import { readReadiness } from "../support/readiness.ts";
import { HttpBench } from "../support/http-bench.ts";
import type { LogLine, RunningSidecar } from "../support/running-sidecar.ts";

const QUICK_RESTART = ["--restart-backoff-ms", "1", "--restart-max-ms", "20", "--crash-loop-exits", "1000"];

function stderrLines(sidecar: RunningSidecar): LogLine[] {
  return sidecar.logLines.filter((line) => line["stream"] === "stderr");
}

/** Checks only the newest line, since there are many. */
function waitForLastLine(sidecar: RunningSidecar, message: string): Promise<true> {
  return sidecar.waitFor(() => sidecar.logLines.at(-1)?.msg === message || undefined, `the line "${message}"`);
}

describe("the server's stderr", () => {
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

  it("a line of 1 MB without an end is logged completely, in pieces", async () => {
    await using sidecar = await HttpBench.start({ flags: QUICK_RESTART });
    const client = await sidecar.client();
    const hex = Buffer.from("e".repeat(1_000_000)).toString("hex");
    expect(await client.toolText("stderr_bytes", { hex })).toBe("written");
    await client.callTool("exit");
    await sidecar.waitForLog("mcp server exited");
    const pieces = stderrLines(sidecar);
    expect(pieces.map((line) => line.msg).join("") === "e".repeat(1_000_000)).toBe(true);
    expect(new Set(pieces.map((line) => line["isPartial"]))).toEqual(new Set([true]));
    expect(Math.max(...pieces.map((line) => line.msg.length))).toBe(16 * 1024);
  });

  it("a burst of 100,000 lines is logged completely, without blocking the server", async () => {
    await using sidecar = await HttpBench.start();
    const client = await sidecar.client();
    expect(await client.toolText("stderr", { text: "a line like any other", count: 100_000 })).toBe("written");
    await client.toolText("stderr", { text: "the end" });
    await waitForLastLine(sidecar, "the end");
    expect(stderrLines(sidecar)).toHaveLength(100_001);
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

  it("any bytes are accepted", async () => {
    await using sidecar = await HttpBench.start();
    const client = await sidecar.client();
    const bytes = Buffer.from(Array.from({ length: 256 }, (_, byte) => byte));
    const hex = Buffer.concat([bytes, Buffer.from("\n\xff\xfe\x00\xe2\x82\n", "latin1"), Buffer.from("text again\n")]).toString("hex");
    expect(await client.toolText("stderr_bytes", { hex })).toBe("written");
    await sidecar.waitForLog("text again");
    const [untilNewline = "", fromNewline = "", short] = stderrLines(sidecar).map((line) => line.msg);
    expect(untilNewline).toBe(bytes.subarray(0, 10).toString());
    expect(fromNewline).toBe(bytes.subarray(11).toString());
    expect(short).toBe("\ufffd\ufffd\u0000\ufffd");
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

  it("secrets of the environment appear neither in the log nor in /readyz", async () => {
    const env = { FIXTURE_API_KEY: "sk-0123456789", FIXTURE_PLAIN: "plainly-visible" };
    await using sidecar = await HttpBench.start({ env, flags: ["--restart-backoff-ms", "600000", "--restart-max-ms", "600000"] });
    const client = await sidecar.client();
    await client.toolText("stderr", { text: "key sk-0123456789 is refused, plainly-visible is not" });
    await sidecar.waitForLog("key *** is refused, plainly-visible is not");
    await client.callTool("exit", { code: 3 });
    const exited = await sidecar.waitForLog("mcp server exited");
    expect(exited["stderrTail"]).toEqual(["key *** is refused, plainly-visible is not"]);
    expect((await readReadiness(sidecar)).lastExit?.stderrLastLine).toBe("key *** is refused, plainly-visible is not");
    expect(sidecar.transcript()).not.toContain("sk-0123456789");
  });
});
