import { expect, it } from "vitest";
import { errorData } from "../support/error-reply.ts";
import { waitForHanging } from "../support/fixture-server.ts";
import { HttpBench } from "../support/http-bench.ts";

/** Avoids the failed state, because these servers crash often. */
const QUICK_RESTART = ["--restart-backoff-ms", "1", "--restart-max-ms", "20", "--crash-loop-exits", "1000"];

it("responses written just before an exit are delivered, even without a line end, and other calls fail", async () => {
  await using sidecar = await HttpBench.start({ flags: QUICK_RESTART });
  const client = await sidecar.client();
  for (let generation = 1; generation <= 10; generation++) {
    const hanging = client.callTool("hang");
    await waitForHanging(client, 1);
    const lineEnd = generation % 2 === 0 ? {} : { lineEnd: "" };
    expect(await client.toolText("answer_and_exit", { code: generation % 3, ...lineEnd })).toBe("last words");
    const data = { sent: true, retrySafe: false, exitCode: generation % 3 };
    expect((await hanging).error?.data).toEqual(errorData("UPSTREAM_EXITED", data));
    const failed = await sidecar.waitForLog("requests in flight failed", (line) => line["generation"] === generation);
    expect(failed).toMatchObject({ count: 1, reason: `exited with code ${generation % 3}` });
  }
});
