import { expect, it } from "vitest";
import { HttpBench } from "../support/http-bench.ts";

const WARNING = "variable meant for the server acts on the sidecar too";

it("the sidecar warns about set variables at the start, without their values", async () => {
  await using sidecar = await HttpBench.start({ env: { NODE_DEBUG: "nothing-s3cret", NODE_OPTIONS: "--title=s3cret" } });
  await sidecar.stop();
  expect(sidecar.logLines.filter(({ msg }) => msg === WARNING).map(({ level, reason }) => ({ level, reason }))).toEqual([
    { level: "warn", reason: "NODE_DEBUG: Node may print the server's command and environment to stderr" },
    { level: "warn", reason: "NODE_OPTIONS: it can open an inspector or load code into the sidecar" },
  ]);
  expect(sidecar.transcript()).not.toContain("s3cret");
});

it("absent and empty variables are not mentioned", async () => {
  await using sidecar = await HttpBench.start({ env: { NODE_DEBUG: "", NODE_OPTIONS: "" } });
  await sidecar.stop();
  expect(sidecar.logLines.map(({ msg }) => msg)).not.toContain(WARNING);
});
