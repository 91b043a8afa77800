import { expect, it } from "vitest";
import { ComposeServices } from "../support/compose.ts";

it("the compose file of tool systems leads a model to a tool of each server", async () => {
  await using services = await ComposeServices.create("tool-systems/compose.yaml");
  await services.start("phone");
  for (const name of ["oneclaw-tools", "clawseed-remote", "cetp-bridge"]) await services.start(name, "mcp server ready");
  await services.start("device");
  const output = await services.run("ask");
  expect(output).toMatch(/^round 1 {3}oneclaw-tools\.get_current_time .* -> \{"ok":true,"data":\{"status":"success"/m);
  expect(output).toMatch(/^round 2 {3}clawseed-remote\.device__device_info \{\} -> \{"ok":true,"data":".*os_version/m);
  expect(output).toMatch(/^round 3 {3}cetp-bridge\.Weather_Co__get_forecast \{"city":"Rome"\} -> \{"ok":true,"data":\{"city":"Rome"/m);
});
