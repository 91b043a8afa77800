import { expect, it } from "vitest";
import { CONFORMANCE_SERVER } from "../support/conformance.ts";
import { disposeAfterAll } from "../support/dispose-after-all.ts";
import { inspect } from "../support/inspector.ts";
import { Sidecar } from "../support/sidecar.ts";

const sidecar = disposeAfterAll(await Sidecar.start({ command: CONFORMANCE_SERVER }));

it("the inspector calls a tool that shows progress, with arguments", async () => {
  const args = ["--tool-arg", "steps=3", "--tool-arg", "text=arrived"];
  const { code, stdout, stderr } = await inspect(sidecar.url, "--method", "tools/call", "--tool-name", "test_steps", ...args);
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  expect(JSON.parse(stdout)).toEqual({ content: [{ type: "text", text: "arrived" }] });
});

it("the inspector finds no fault under load", async () => {
  const load = ["--load", "--load-requests", "200", "--load-concurrency", "20", "--format", "json"];
  const args = ["--tool-arg", "steps=1", "--tool-arg", "text=loaded"];
  const { code, stdout } = await inspect(sidecar.url, "--method", "tools/call", "--tool-name", "test_steps", ...args, ...load);
  expect(code).toBe(0);
  expect(JSON.parse(stdout)).toMatchObject({ result: { requests: 200, ok: 200, toolErrors: 0, errors: 0 } });
});
