import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { RawClient } from "../support/http-client.ts";
import { waitForHanging } from "../support/in-flight.ts";
import { Sidecar } from "../support/sidecar.ts";
import { readStatus } from "../support/status.ts";

describe("a defect of the sidecar", () => {
  let sidecar: Sidecar;
  let client: RawClient;
  beforeAll(async () => {
    sidecar = await Sidecar.start({ imports: [new URL("../support/defect.js", import.meta.url).href] });
    client = await sidecar.client();
  });
  afterAll(() => sidecar[Symbol.asyncDispose]());

  it.each(["in-answer", "in-request"])("%s fails that request, and leaves others in flight", async (id) => {
    const bystander = await sidecar.client();
    const hanging = bystander.callTool("hang");
    await waitForHanging(bystander, 1);
    const { error } = await client.callTool("echo", { text: "a" }, id);
    expect(error).toMatchObject({ code: -32603, data: { code: "INTERNAL_ERROR", sent: true, retrySafe: false } });
    await bystander.toolText("release");
    expect((await hanging).result?.content?.[0]?.text).toMatch(/^released/);
    const logged = await sidecar.waitForLog("defect of the sidecar", ({ reason }) => reason === `a defect ${id}`);
    expect(logged).toMatchObject({ err: { stack: expect.stringContaining("defect.js") as unknown } });
  });

  it("is counted, and ends neither the sidecar nor the server", async () => {
    const status = await readStatus(sidecar);
    expect(status).toMatchObject({ generation: 1, counters: { defects: 2 } });
  });
});
