import { expect, it } from "vitest";
import { timeoutFlags } from "../support/fixture-server.ts";
import { listedTool, ListedTools, WITNESSES } from "../support/listed-tools.ts";
import { HttpBench } from "../support/http-bench.ts";
import { signalServer } from "../support/in-process-server.ts";
import type { LogLine, RunningSidecar } from "../support/running-sidecar.ts";

const LIST_CHANGED = '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}';

async function health(sidecar: RunningSidecar): Promise<object> {
  const response = await fetch(`${sidecar.origin}/healthz`);
  const { state } = (await response.json()) as { state: string };
  return { status: response.status, state };
}

/** More than the failed answers that restart a server. */
const TIMEOUTS = 5;

async function unansweredListings(sidecar: RunningSidecar): Promise<void> {
  const isListing = ({ msg, method }: LogLine): boolean => msg === "internal request failed" && method === "tools/list";
  await sidecar.waitFor(() => sidecar.logLines.filter(isListing)[TIMEOUTS - 1], `${TIMEOUTS} listings without an answer`);
}

function exits(sidecar: RunningSidecar): LogLine[] {
  return sidecar.logLines.filter(({ msg }) => msg === "mcp server exited");
}

it("the sidecar is not ready before the tools are listed", async () => {
  await using listed = await ListedTools.create([listedTool("search")]);
  await listed.fallSilent();
  await using sidecar = await HttpBench.start({ flags: ["--deny-tools", "secret"], env: listed.env });
  expect(await health(sidecar)).toEqual({ status: 503, state: "starting" });
});

it("tools that exceed a limit of memory are not listed, and the reason names it", async () => {
  await using listed = await ListedTools.create([
    { name: "a", inputSchema: { type: "object", default: Array.from({ length: 900_000 }, () => ({})) } },
  ]);
  await using sidecar = await HttpBench.start({ flags: ["--deny-tools", "secret"], env: listed.env });
  expect(await sidecar.waitForLog("mcp server exited")).toMatchObject({
    kind: "tools-not-listed",
    reason: "tools/list did not return the tools: too many values: they could take more than 67108864 bytes of memory",
  });
});

it("a server that announces new tools, but does not list them, is restarted", async () => {
  await using listed = await ListedTools.create([...WITNESSES, listedTool("search")]);
  await using sidecar = await HttpBench.start({ flags: ["--deny-tools", "secret", "--restart-backoff-ms", "1"], env: listed.env });
  const client = await sidecar.client();
  expect(await client.toolText("search")).toBe("{}");
  await listed.refuse();
  await client.notify("notifications/x-write", { line: LIST_CHANGED });
  await sidecar.waitForLog("mcp server exited", ({ kind }) => kind === "tools-not-listed");
  await listed.list([...WITNESSES, listedTool("search")]);
  expect(await client.toolText("search")).toBe("{}");
});

it("a server that lists its tools late, but answers pings, is not restarted", async () => {
  await using listed = await ListedTools.create();
  await listed.fallSilent();
  const flags = ["--deny-tools", "secret", "--hung-timeouts", "1", "--hold-timeout-ms", "1000", ...timeoutFlags(1000, ["search", "where"])];
  await using sidecar = await HttpBench.start({ flags, env: listed.env });
  const client = await sidecar.client();
  const { error } = await client.callTool("search");
  expect(error?.data).toMatchObject({ code: "UPSTREAM_NOT_READY", sent: false });
  await unansweredListings(sidecar);
  await listed.list([...WITNESSES, listedTool("search")]);
  while ((await client.callTool("search")).error !== undefined);
  expect(exits(sidecar)).toEqual([]);
});

it("a server that answers neither the first listing nor a ping is restarted", async () => {
  await using listed = await ListedTools.create();
  await listed.fallSilent();
  const flags = ["--deny-tools", "secret", "--hung-timeouts", "2", "--request-timeout-ms", "1000"];
  await using sidecar = await HttpBench.start({ flags, env: listed.env });
  signalServer(sidecar.childPid, "SIGSTOP");
  const reason = "hung: no output while tools/list timed out, the last of 2 timeouts in a row, nor for 1 s after ping";
  expect(await sidecar.waitForLog("mcp server exited")).toMatchObject({ kind: "hung", reason });
});
