import { describe, expect, it } from "vitest";
import { listedTool, ListedTools, WITNESSES } from "../support/listed-tools.ts";
import { Sidecar } from "../support/sidecar.ts";

const LIST_CHANGED = '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}';

/** Returns the status and state of `/healthz`. */
async function health(sidecar: Sidecar): Promise<object> {
  const response = await fetch(`${sidecar.origin}/healthz`);
  const { state } = (await response.json()) as { state: string };
  return { status: response.status, state };
}

describe("a policy that depends on the server's tools", () => {
  it("the sidecar is not ready before the tools are listed", async () => {
    await using listed = await ListedTools.create([listedTool("search")]);
    await listed.fallSilent();
    await using sidecar = await Sidecar.start({ flags: ["--deny-tools", "secret"], env: listed.env });
    expect(await health(sidecar)).toEqual({ status: 503, state: "starting" });
  });

  it("the sidecar is ready once the tools are listed", async () => {
    await using listed = await ListedTools.create([...WITNESSES, listedTool("search")]);
    await using sidecar = await Sidecar.start({ flags: ["--deny-tools", "secret"], env: listed.env });
    const client = await sidecar.client();
    expect(await client.toolText("search", { a: 1 })).toBe('{"a":1}');
    expect(await health(sidecar)).toEqual({ status: 200, state: "ready" });
  });

  it("tools that exceed a limit of memory are not listed, and the reason names it", async () => {
    await using listed = await ListedTools.create([
      { name: "a", inputSchema: { type: "object", default: Array.from({ length: 900_000 }, () => ({})) } },
    ]);
    await using sidecar = await Sidecar.start({ flags: ["--deny-tools", "secret"], env: listed.env });
    expect(await sidecar.waitForLog("mcp server exited")).toMatchObject({
      kind: "tools-not-listed",
      reason: "tools/list did not return the tools: too many values: they could take more than 67108864 bytes of memory",
    });
  });

  it("a server that announces new tools, but does not list them, is restarted", async () => {
    await using listed = await ListedTools.create([...WITNESSES, listedTool("search")]);
    await using sidecar = await Sidecar.start({ flags: ["--deny-tools", "secret", "--restart-backoff-ms", "1"], env: listed.env });
    const client = await sidecar.client();
    expect(await client.toolText("search")).toBe("{}");
    await listed.refuse();
    await client.notify("notifications/x-write", { line: LIST_CHANGED });
    await sidecar.waitForLog("mcp server exited", ({ kind }) => kind === "tools-not-listed");
    await listed.list([...WITNESSES, listedTool("search")]);
    expect(await client.toolText("search")).toBe("{}");
  });
});
