import { expect, it } from "vitest";
import { readError, errorReply } from "../support/error-reply.ts";
import { send } from "../support/http-client.ts";
import { Sidecar } from "../support/sidecar.ts";

const LONG_MS = "600000";

async function stopping(flags: readonly string[]): Promise<Sidecar> {
  const sidecar = await Sidecar.start({ flags });
  sidecar.process.kill("SIGTERM");
  await sidecar.waitForLog("stopping");
  return sidecar;
}

it("requests are served during PRE_STOP_MS, each on a connection that closes, while readiness is 503", async () => {
  await using sidecar = await Sidecar.start({ flags: ["--pre-stop-ms", LONG_MS] });
  const client = await sidecar.client();
  using stream = await client.openStream();
  sidecar.process.kill("SIGTERM");
  await sidecar.waitForLog("stopping");
  for (const path of ["readyz", "healthz"]) {
    const { status, body } = await send(`${sidecar.origin}/${path}`, { method: "GET" });
    expect([status, JSON.parse(body)]).toMatchObject([503, { status: "not-ready", state: "stopping" }]);
  }
  const reply = await client.post({ jsonrpc: "2.0", id: 2, method: "ping" });
  expect([reply.status, reply.headers["connection"]]).toEqual([200, "close"]);
  expect(await (await sidecar.client()).toolText("echo", { text: "new" })).toBe("new");
  // The GET stream is still open.
  await client.notify("notifications/x-write", { line: '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}' });
  expect(await stream.messages(1)).toMatchObject([{ method: "notifications/tools/list_changed" }]);
  // A second signal ends the wait.
  sidecar.process.kill("SIGTERM");
  expect((await sidecar.exited).code).toBe(143);
});

it("the drain follows PRE_STOP_MS", async () => {
  await using sidecar = await Sidecar.start({ flags: ["--pre-stop-ms", "200"] });
  const client = await sidecar.client();
  const call = client.callTool("hang");
  await sidecar.waitForLog("mcp server ready");
  sidecar.process.kill("SIGTERM");
  await sidecar.waitForLog("stopping");
  let reply = await client.post({ jsonrpc: "2.0", id: 2, method: "ping" });
  while (reply.status === 200) reply = await client.post({ jsonrpc: "2.0", id: 2, method: "ping" });
  expect(readError(reply)).toStrictEqual(errorReply(503, -32000, "SHUTTING_DOWN", { id: 2, data: { retryAfterSeconds: 1 } }));
  sidecar.process.kill("SIGTERM");
  await call.catch(() => undefined);
  expect((await sidecar.exited).code).toBe(143);
});

it("without PRE_STOP_MS, requests are rejected at once", async () => {
  await using sidecar = await stopping([]);
  const { code } = await sidecar.exited;
  expect(code).toBe(0);
});
