import { expect, it } from "vitest";
import { errorReply, readError } from "../support/error-reply.ts";
import { waitForHanging } from "../support/fixture-server.ts";
import { HttpBench } from "../support/http-bench.ts";

const LONG_MS = "600000";
const PING = { jsonrpc: "2.0", id: 2, method: "ping" };
const REJECTED = errorReply(503, -32000, "SHUTTING_DOWN", { id: 2, data: { retryAfterSeconds: 1 } });

it("PRE_STOP_MS is over if the server reaches RESTART_LIMIT", async () => {
  const flags = ["--pre-stop-ms", LONG_MS, "--restart-limit", "1", "--restart-backoff-ms", "1"];
  await using sidecar = await HttpBench.start({ flags });
  const client = await sidecar.client();
  sidecar.kill("SIGTERM");
  await sidecar.waitForLog("stopping");
  for (const _ of [1, 2]) await client.callTool("exit", { code: 3 });
  expect(await sidecar.ended).toBe(0);
});

it("requests are rejected after PRE_STOP_MS", async () => {
  await using sidecar = await HttpBench.start({ flags: ["--pre-stop-ms", "5000", "--drain-timeout-ms", LONG_MS] });
  const [client, control] = [await sidecar.client(), await sidecar.client()];
  // It keeps the drain from its end.
  const call = client.callTool("hang");
  await waitForHanging(control, 1);
  sidecar.kill("SIGTERM");
  await sidecar.waitForLog("stopping");
  let reply = await client.post(PING);
  expect(reply.status).toBe(200);
  while (reply.status === 200) reply = await client.post(PING);
  expect(readError(reply)).toStrictEqual(REJECTED);
  sidecar.kill("SIGTERM");
  await call.catch(() => undefined);
  expect(await sidecar.ended).toBe(143);
});
