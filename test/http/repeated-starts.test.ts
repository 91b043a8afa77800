import { expect, it } from "vitest";
import { ChosenServer } from "../support/chosen-server.ts";
import { HttpBench } from "../support/http-bench.ts";

const QUICK = ["--restart-backoff-ms", "1", "--restart-max-ms", "20", "--crash-loop-exits", "3"];

it("another last line is logged at once, and so is the recovery", async () => {
  await using server = await ChosenServer.create();
  await server.chooseExit(3);
  await using sidecar = await HttpBench.start({ command: server.command, flags: QUICK, untilReady: false });
  await sidecar.waitForLog("mcp server exited again", ({ count }) => count === 4);
  await server.chooseExit(3, "the disk is full");
  const { generation } = await sidecar.waitForLog("the disk is full");
  expect(await sidecar.waitForLog("mcp server exited", (line) => line["generation"] === generation)).toMatchObject({
    stderrTail: ["the disk is full"],
  });
  await server.chooseMode("normal");
  await sidecar.waitForLog("mcp server ready");
  expect(sidecar.logLines.filter(({ msg }) => msg === "the disk is full")).toHaveLength(1);
});

it("a generation starts when its pause is over, not before", async () => {
  // At the level `debug`, starts that fail alike are logged too.
  const flags = ["--log-level", "debug", "--restart-backoff-ms", "20", "--restart-max-ms", "400", "--crash-loop-exits", "1000"];
  await using sidecar = await HttpBench.start({ mode: "exit-at-initialize", flags, untilReady: false });
  await sidecar.waitForLog("mcp server started", ({ generation }) => generation === 6);
  const time = (line: { readonly [key: string]: unknown } | undefined): number => Date.parse(String(line?.["time"]));
  const restarts = sidecar.logLines.filter((line) => line.msg === "mcp server will be restarted").slice(0, 5);
  for (const [index, restart] of restarts.entries()) {
    const started = sidecar.logLines.find((line) => line.msg === "mcp server started" && line["generation"] === index + 2);
    // Timers may fire a millisecond early, and both times are rounded.
    expect(time(started) - time(restart)).toBeGreaterThanOrEqual(Number(restart["pauseMs"]) - 2);
  }
});
