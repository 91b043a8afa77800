import { describe, expect, it } from "vitest";
import { crashProcess, readSeen, readWhere } from "../support/fixture-server.ts";
import { LANE_CLIENTS } from "../support/lane-client.ts";
import { ListedTools, listedTool, WITNESSES } from "../support/listed-tools.ts";
import { HttpBench } from "../support/http-bench.ts";
import type { RunningSidecar } from "../support/running-sidecar.ts";

const FLAGS = ["--read-only", "--restart-backoff-ms", "1", "--restart-max-ms", "20"];
const READS = { readOnlyHint: true };
const NOT_FOUND = { error: { code: -32602, data: { code: "TOOL_NOT_FOUND", sent: false } } };

function start(listed: ListedTools, flags: readonly string[] = FLAGS): Promise<RunningSidecar> {
  return HttpBench.start({ flags, env: listed.env });
}

async function listedNames(
  client: { request(method: string, params: object): Promise<{ readonly result?: object }> },
  cursor = {},
): Promise<string[]> {
  const { result } = await client.request("tools/list", cursor);
  return (result as { readonly tools: readonly { readonly name: string }[] }).tools.map(({ name }) => name);
}

describe.each(LANE_CLIENTS)("a tool of a $lane server in read-only mode", ({ connect }) => {
  it("a tool is listed and callable only if its server marks it as read-only", async () => {
    const tools = [
      listedTool("hint", READS),
      listedTool("pod", { readOnly: true }),
      listedTool("destroys", { readOnlyHint: true, destructiveHint: true }),
      listedTool("unmarked"),
      listedTool("empty", {}),
      listedTool("writes", { readOnlyHint: false, destructiveHint: false }),
      listedTool("contradicts", { readOnlyHint: true, readOnly: false }),
      listedTool("denies", { readOnlyHint: false, readOnly: true }),
      listedTool("none", null),
      listedTool("text", { readOnlyHint: "true" }),
      { ...listedTool("elsewhere"), readOnlyHint: true, _meta: READS },
    ];
    await using listed = await ListedTools.create(WITNESSES, tools);
    await using sidecar = await start(listed);
    const client = await connect(sidecar);
    const names = await listedNames(client, { cursor: "1" });
    // The specification gives destructiveHint a meaning only if readOnlyHint is false.
    expect(names).toEqual(["hint", "pod", "destroys"]);
    for (const { name } of tools) {
      const reply = await client.callTool(name, { n: 1 });
      expect(reply).toMatchObject(names.includes(name) ? { result: { content: [{ text: '{"n":1}' }] } } : NOT_FOUND);
    }
    expect((await readSeen(client)).filter((method) => method === "tools/call").length).toBeLessThanOrEqual(names.length + 2);
  });

  it("a tool that is no longer read-only becomes hidden, after list_changed or a restart", async () => {
    await using listed = await ListedTools.create([...WITNESSES, listedTool("first", READS), listedTool("second", READS)]);
    await using sidecar = await start(listed);
    const client = await connect(sidecar);
    expect(await client.toolText("first")).toBe("{}");

    await listed.list([...WITNESSES, listedTool("first"), listedTool("second", READS), listedTool("third", READS)]);
    const countLists = async (): Promise<number> => (await readSeen(client)).filter((method) => method === "tools/list").length;
    const before = await countLists();
    await client.write({ jsonrpc: "2.0", method: "notifications/tools/list_changed" });
    while ((await countLists()) === before);
    expect(await client.callTool("first")).toMatchObject(NOT_FOUND);
    expect([await client.toolText("second"), await client.toolText("third")]).toEqual(["{}", "{}"]);

    const { pid } = await readWhere(client);
    await listed.list([...WITNESSES, listedTool("first", READS), listedTool("second")]);
    await crashProcess(sidecar, pid);
    const [first, second, third] = await Promise.all(["first", "second", "third"].map((name) => client.callTool(name)));
    expect([first?.result?.content?.[0]?.text, second, third]).toMatchObject(["{}", NOT_FOUND, NOT_FOUND]);
    expect(await listedNames(client)).toEqual([...WITNESSES.map(({ name }) => name), "first"]);
  });
});

describe("read-only mode", () => {
  it("read-only mode is off by default, and servers are then not asked for tools", async () => {
    await using listed = await ListedTools.create([...WITNESSES, listedTool("write")]);
    await using sidecar = await start(listed, []);
    const client = await sidecar.client();
    expect(await client.toolText("write")).toBe("{}");
    expect(await readSeen(client)).not.toContain("tools/list");
  });
});
