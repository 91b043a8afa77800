import { expect } from "vitest";
import { disposeAfterAll } from "../support/dispose-after-all.ts";
import { readWhere } from "../support/fixture-server.ts";
import { McpClient } from "../support/mcp-client.ts";
import { groupEnd } from "../support/process-end.ts";
import { isGroupAlive, Sidecar } from "../support/sidecar.ts";
import { proves } from "./proves.ts";

const [OLD, NEW] = ["0123456789abcdef".repeat(3), "fedcba9876543210".repeat(3)];

function start(...keys: readonly string[]): Promise<Sidecar> {
  return Sidecar.start({ env: { CLAW_MCP_STDIO_SESSION_KEY: keys.join(",") } });
}

/** Returns a client that sends the requests of a session to another replica. */
function at({ url }: Sidecar, { sessionId }: McpClient): McpClient {
  return new McpClient(url, { sessionId });
}

const one = disposeAfterAll(await start(OLD, NEW));
const other = disposeAfterAll(await start(NEW, OLD));

proves("keys of sessions are rotated", async () => {
  const [signedByOld, signedByNew] = [await one.client(), await other.client()];
  expect(await at(other, signedByOld).toolText("echo", { text: "old" })).toBe("old");
  expect(await at(one, signedByNew).toolText("echo", { text: "new" })).toBe("new");
});

proves("sessions survive a restart of the sidecar", async () => {
  const client = await one.client();
  const before = await readWhere(client);
  expect((await readWhere(at(other, client))).pid).not.toBe(before.pid);
  await one.stop("SIGKILL");
  await using restarted = await start(OLD);
  const again = at(restarted, client);
  expect(await again.toolText("echo", { text: "back" })).toBe("back");
  using stream = await again.openStream();
  expect(stream.status).toBe(200);
  // Signed by the key that this one does not have.
  expect((await at(restarted, await other.client()).callTool("echo")).status).toBe(404);
});

proves("sessions that clients sign count as new", async () => {
  const token = "a-token-whose-client-can-sign-ids";
  const env = { CLAW_MCP_STDIO_AUTH_TOKEN: token };
  await using signing = await Sidecar.start({ env });
  await using limited = await Sidecar.start({ env, flags: ["--sessions-per-minute", "1"] });
  const statuses: number[] = [];
  for (let times = 0; times < 2; times++) {
    const { sessionId } = await signing.client({ token });
    statuses.push((await new McpClient(limited.url, { token, sessionId }).request("ping")).status);
  }
  expect(statuses).toEqual([200, 429]);
});

proves("a killed sidecar leaves no server", async () => {
  const client = await other.client();
  const { pid } = await readWhere(client);
  expect(isGroupAlive(pid)).toBe(true);
  await other.stop("SIGKILL");
  await groupEnd(pid);
  expect(isGroupAlive(pid)).toBe(false);
});
