import { expect, it } from "vitest";
import { HttpBench } from "../support/http-bench.ts";

it("only the level debug shows dropped notifications", async () => {
  const dropped = "server notification dropped";
  await using debug = await HttpBench.start({ flags: ["--log-level", "debug"] });
  await (await debug.client()).toolText("progress");
  expect(await debug.waitForLog(dropped)).toMatchObject({ level: "debug", method: "notifications/progress" });
  await using info = await HttpBench.start();
  const client = await info.client();
  await client.toolText("progress");
  await client.toolText("stderr", { text: "afterwards" });
  await info.waitForLog("afterwards");
  expect(info.logLines.map(({ msg }) => msg)).not.toContain(dropped);
});
