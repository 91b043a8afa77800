import { expect, it } from "vitest";
import { ComposeServices } from "../support/compose.ts";

it("the compose file of managed tools leads to the answer of a model", async () => {
  await using services = await ComposeServices.create("managed-tools/compose.yaml");
  await services.start("echo", "mcp server ready");
  const output = await services.run("ask");
  expect(output).toMatch(/^round 1 {3}echo\.add \{"a":2,"b":3\} -> \{"ok":true,"data":"5"\}/m);
  expect(output).toMatch(/^model {5}2 \+ 3 = 5$/m);
});
