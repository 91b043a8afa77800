import { describe, expect, it } from "vitest";
import { disposeAfterAll } from "../support/dispose-after-all.ts";
import { waitForHanging } from "../support/in-flight.ts";
import { ListedTools, WITNESSES } from "../support/listed-tools.ts";
import { Sidecar } from "../support/sidecar.ts";
import { readStatus } from "../support/status.ts";

describe("a defect of the sidecar", async () => {
  const sidecar = disposeAfterAll(await Sidecar.start({ imports: [new URL("../support/defect.js", import.meta.url).href] }));
  const client = await sidecar.client();

  it.each(["in-answer", "in-request"])("a defect %s fails only that request", async (id) => {
    const bystander = await sidecar.client();
    const hanging = bystander.callTool("hang");
    await waitForHanging(bystander, 1);
    const { error } = await client.callTool("echo", { text: id }, id);
    expect(error).toMatchObject({ code: -32603, data: { code: "INTERNAL_ERROR", sent: true, retrySafe: false } });
    await bystander.toolText("release");
    expect((await hanging).result?.content?.[0]?.text).toMatch(/^released/);
    const logged = await sidecar.waitForLog("defect of the sidecar", ({ reason }) => reason === `a defect ${id}`);
    expect(logged).toMatchObject({ err: { stack: expect.stringContaining("defect.js") as unknown } });
  });

  it("defects are counted, and neither the sidecar nor the server exits", async () => {
    const status = await readStatus(sidecar);
    expect(status).toMatchObject({ generation: 1, counters: { defects: 2 } });
  });
});

it("a defect after the argument check fails that call, and later checks work", async () => {
  const schema = { type: "object", properties: { a: { type: "string" } } };
  await using listed = await ListedTools.create([...WITNESSES, { name: "search", inputSchema: schema }]);
  const imports = [new URL("../support/defect.js", import.meta.url).href];
  await using sidecar = await Sidecar.start({ flags: ["--argument-check", "enforce"], env: listed.env, imports });
  const client = await sidecar.client();
  const failed = await client.callTool("search", { a: 1 }, "in-answer");
  expect(failed.error).toMatchObject({ data: { code: "INTERNAL_ERROR", sent: false, retrySafe: true } });
  expect((await client.callTool("search", { a: 1 })).result?.["isError"]).toBe(true);
});
