import { describe, expect, it } from "vitest";
import { writeFile } from "node:fs/promises";
import { DiscoveryClient, type Snapshot } from "../support/discovery-client.ts";
import { EVERYTHING } from "../support/real-servers.ts";
import { Sidecar } from "../support/sidecar.ts";
import { readStatus } from "../support/status.ts";
import { TempDir } from "../support/temp-dir.ts";

function snapshotOf({ origin }: Sidecar): Promise<Snapshot> {
  const [command = "", ...args] = EVERYTHING;
  return new DiscoveryClient({ origin, service: "everything", command, args, wrapperImage: "image" }).discover();
}

/** Serializes like Go's encoding/json. */
function goText(value: unknown): string {
  const text = JSON.stringify(value, undefined, 2);
  return text.replace(/[<>&\u2028\u2029]/g, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

describe("a descriptor of a real server", () => {
  it("unchanged tools are served, and a tool that differs from its review is hidden", async () => {
    await using directory = await TempDir.create();
    const path = directory.file("everything.claw-describe.json");
    let reviewed: Snapshot;
    {
      await using sidecar = await Sidecar.start({ command: EVERYTHING });
      reviewed = await snapshotOf(sidecar);
    }
    await writeFile(path, goText(reviewed));
    {
      await using sidecar = await Sidecar.start({ command: EVERYTHING, flags: ["--descriptor", path] });
      expect((await snapshotOf(sidecar)).tools).toEqual(reviewed.tools);
      const client = await sidecar.client();
      expect(await client.toolText("get-sum", { a: 2, b: 3 })).toContain("5");
      expect((await readStatus(sidecar)).policy?.descriptor).toMatchObject({ reviewedTools: reviewed.tools.length, driftedTools: 0 });
    }
    const tools = reviewed.tools.map((tool) => (tool.name === "get-sum" ? { ...tool, description: "Adds." } : tool));
    await writeFile(path, goText({ ...reviewed, tools }));
    await using sidecar = await Sidecar.start({ command: EVERYTHING, flags: ["--descriptor", path] });
    expect((await snapshotOf(sidecar)).tools).toEqual(reviewed.tools.filter(({ name }) => name !== "get-sum"));
    const client = await sidecar.client();
    expect((await client.callTool("get-sum", { a: 2, b: 3 })).error?.data?.["code"]).toBe("TOOL_NOT_FOUND");
    expect(await client.toolText("echo", { message: "hello" })).toContain("hello");
  });
});
