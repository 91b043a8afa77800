import { expect, it } from "vitest";
import { type ListedTool, ListedTools, WITNESSES } from "../support/listed-tools.ts";
import { Sidecar } from "../support/sidecar.ts";
import { readStatus } from "../support/status.ts";

const ECHO: ListedTool = { name: "repeat", inputSchema: { properties: { n: { type: "integer" } } } };

/** Stalls the sidecar after each message to a thread of its own, for as long as a busy machine may. */
const STALL = `import { Worker } from "node:worker_threads";
const post = Worker.prototype.postMessage;
Worker.prototype.postMessage = function (...args) {
  post.apply(this, args);
  setImmediate(() => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 3000));
};`;

it("valid arguments are accepted, however long the sidecar gets no processor meanwhile", async () => {
  await using listed = await ListedTools.create([...WITNESSES, ECHO]);
  const imports = [`data:text/javascript,${encodeURIComponent(STALL)}`];
  await using sidecar = await Sidecar.start({ flags: ["--argument-check", "enforce"], env: listed.env, imports });
  const client = await sidecar.client();
  // Long enough that the reply of the thread does not come before the stall.
  const args = { n: 1, list: Array.from({ length: 100_000 }, () => 0) };
  expect(JSON.parse(await client.toolText("repeat", args))).toEqual(args);
  expect((await readStatus(sidecar)).counters.policy).toMatchObject({ argumentChecksGivenUp: 0 });
});
