import { describe, expect, it } from "vitest";
import { crash } from "../support/crash.ts";
import { errorData } from "../support/error-reply.ts";
import { waitForHanging, waitForSeen } from "../support/in-flight.ts";
import { HttpBench } from "../support/http-bench.ts";

/** Avoids the failed state, because these servers crash often. */
const QUICK_RESTART = ["--restart-backoff-ms", "1", "--restart-max-ms", "20", "--crash-loop-exits", "1000"];
/** A pause longer than any test: requests are answered before the next generation starts. */
const NO_RESTART = ["--restart-backoff-ms", "600000", "--restart-max-ms", "600000"];

describe("a crash", () => {
  it.each([
    ["tools/list", true, "The request was sent, but only reads; it is safe to retry."],
    ["completion/complete", true, "The request was sent, but only reads; it is safe to retry."],
    ["resources/read", true, "The request was sent, but only reads; it is safe to retry."],
    ["prompts/get", true, "The request was sent, but only reads; it is safe to retry."],
    ["logging/setLevel", true, "it is safe to retry."],
    ["resources/subscribe", true, "it is safe to retry."],
    ["x-vendor/anything", false, "The request was sent and may have taken effect; check before you repeat it."],
  ])("a failed %s has retrySafe %s", async (method, retrySafe, advice) => {
    await using sidecar = await HttpBench.start({ flags: [...NO_RESTART, "--retry", "off"] });
    const client = await sidecar.client();
    await client.callTool("mute", { method });
    const inFlight = client.request(method);
    await waitForSeen(client, method);
    await crash(sidecar);
    const { status, error } = await inFlight;
    expect([status, error?.data]).toEqual([200, errorData("UPSTREAM_EXITED", { sent: true, retrySafe, signal: "SIGKILL" })]);
    expect(error?.message).toContain(`The MCP server stopped during ${method} (ended by SIGKILL).`);
    expect(error?.message).toContain(advice);
  });

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
});
