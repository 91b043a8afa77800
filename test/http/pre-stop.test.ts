import { expect, it } from "vitest";
import { errorReply, readError } from "../support/error-reply.ts";
import { send } from "../support/http-client.ts";
import { waitForHanging } from "../support/in-flight.ts";
import { HttpBench } from "../support/http-bench.ts";

const LONG_MS = "600000";
const PING = { jsonrpc: "2.0", id: 2, method: "ping" };
const REJECTED = errorReply(503, -32000, "SHUTTING_DOWN", { id: 2, data: { retryAfterSeconds: 1 } });

it("requests are served during PRE_STOP_MS, each on a connection that closes, while readiness is 503", async () => {
  await using sidecar = await HttpBench.start({ flags: ["--pre-stop-ms", LONG_MS] });
  const client = await sidecar.client();
  using stream = await client.openStream();
  sidecar.kill("SIGTERM");
  await sidecar.waitForLog("stopping");
  for (const path of ["readyz", "healthz"]) {
    const { status, body } = await send(`${sidecar.origin}/${path}`, { method: "GET" });
    expect([status, JSON.parse(body)]).toMatchObject([503, { status: "not-ready", state: "stopping" }]);
  }
  const reply = await client.post(PING);
  expect([reply.status, reply.headers["connection"]]).toEqual([200, "close"]);
  expect(await (await sidecar.client()).toolText("echo", { text: "new" })).toBe("new");
  // The GET stream is still open.
  await client.notify("notifications/x-write", { line: '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}' });
  expect(await stream.messages(1)).toMatchObject([{ method: "notifications/tools/list_changed" }]);
  // A second signal ends the wait.
  sidecar.kill("SIGTERM");
  expect(await sidecar.ended).toBe(143);
});

it("PRE_STOP_MS is over if the server reaches RESTART_LIMIT", async () => {
  const flags = ["--pre-stop-ms", LONG_MS, "--restart-limit", "1", "--restart-backoff-ms", "1"];
  await using sidecar = await HttpBench.start({ flags });
  const client = await sidecar.client();
  sidecar.kill("SIGTERM");
  await sidecar.waitForLog("stopping");
  for (const _ of [1, 2]) await client.callTool("exit", { code: 3 });
  expect(await sidecar.ended).toBe(0);
});

it.each([
  ["after PRE_STOP_MS", ["--pre-stop-ms", "2000"], true],
  ["at once without PRE_STOP_MS", [], false],
])("requests are rejected %s", async (_when, flags, isServedFirst) => {
  await using sidecar = await HttpBench.start({ flags: [...flags, "--drain-timeout-ms", LONG_MS] });
  const [client, control] = [await sidecar.client(), await sidecar.client()];
  // It keeps the drain from its end.
  const call = client.callTool("hang");
  await waitForHanging(control, 1);
  sidecar.kill("SIGTERM");
  await sidecar.waitForLog("stopping");
  let reply = await client.post(PING);
  expect(reply.status).toBe(isServedFirst ? 200 : 503);
  while (reply.status === 200) reply = await client.post(PING);
  expect(readError(reply)).toStrictEqual(REJECTED);
  sidecar.kill("SIGTERM");
  await call.catch(() => undefined);
  expect(await sidecar.ended).toBe(143);
});
