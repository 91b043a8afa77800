import { readFile } from "node:fs/promises";
import { describe, expect, it } from "vitest";
import { crash } from "../support/crash.ts";
import { OwnedResources } from "../support/owned-resources.ts";
import { MEMORY } from "../support/real-servers.ts";
import { SdkClient } from "../support/sdk-client.ts";
import { InteropClient } from "../support/sdk-clients.ts";
import { Sidecar } from "../support/sidecar.ts";
import { TempDir } from "../support/temp-dir.ts";

const ADA = { name: "Ada", entityType: "person", observations: ["wrote the first program"] };
const ENGINE = { name: "Engine", entityType: "machine", observations: ["was never built"] };
const WRITERS = ["shared", "private", "shared", "private"] as const;
const WRITES_EACH = 25;
const DESIGNED_FOR = { from: "Ada", to: "Engine", relationType: "programs" };

interface Memory extends AsyncDisposable {
  readonly sidecar: Sidecar;
  readonly client: SdkClient;
  readonly graphPath: string;
}

async function startMemory(flags: readonly string[] = []): Promise<Memory> {
  await using stack = new OwnedResources();
  const graphPath = stack.use(await TempDir.create()).file("graph.jsonl");
  const env = { MEMORY_FILE_PATH: graphPath };
  const sidecar = stack.use(await Sidecar.start({ command: MEMORY, env, flags: ["--restart-backoff-ms", "1", ...flags] }));
  const client = stack.use(await SdkClient.connect(sidecar.url));
  const owned = stack.move();
  return { sidecar, client, graphPath, [Symbol.asyncDispose]: () => owned[Symbol.asyncDispose]() };
}

async function structured(client: SdkClient, name: string, args: Record<string, unknown> = {}): Promise<unknown> {
  return (await client.callTool({ name, arguments: args })).structuredContent;
}

describe("the memory server behind the sidecar", () => {
  it("the server changes its graph on the disk", async () => {
    await using memory = await startMemory();
    const { client, graphPath } = memory;
    await client.listTools();
    expect(await structured(client, "create_entities", { entities: [ADA, ENGINE] })).toEqual({ entities: [ADA, ENGINE] });
    expect(await structured(client, "create_relations", { relations: [DESIGNED_FOR] })).toEqual({ relations: [DESIGNED_FOR] });
    const lines = (await readFile(graphPath, "utf8")).split("\n").map((line) => JSON.parse(line) as unknown);
    expect(lines).toEqual([
      { type: "entity", ...ADA },
      { type: "entity", ...ENGINE },
      { type: "relation", ...DESIGNED_FOR },
    ]);

    await structured(client, "add_observations", { observations: [{ entityName: "Ada", contents: ["spoke français"] }] });
    await structured(client, "delete_entities", { entityNames: ["Engine"] });
    const ada = { ...ADA, observations: [...ADA.observations, "spoke français"] };
    expect(await structured(client, "read_graph")).toEqual({ entities: [ada], relations: [] });
    expect(await structured(client, "search_nodes", { query: "français" })).toEqual({ entities: [ada], relations: [] });
  });

  it("one client sees entries that another one has stored", async () => {
    await using memory = await startMemory();
    await using other = await SdkClient.connect(memory.sidecar.url);
    await structured(memory.client, "create_entities", { entities: [ADA] });
    expect(await structured(other, "open_nodes", { names: ["Ada"] })).toEqual({ entities: [ADA], relations: [] });
    const { contents } = await other.readResource({ uri: "memory://knowledge-graph" });
    expect(contents).toEqual([
      {
        uri: "memory://knowledge-graph",
        mimeType: "application/json",
        text: JSON.stringify({ entities: [ADA], relations: [] }, null, 2),
      },
    ]);
  });

  it("all writes of four clients are kept with ISOLATION=shared and MAX_IN_FLIGHT=1", async () => {
    await using memory = await startMemory(["--isolation", "shared", "--max-in-flight", "1"]);
    await using clients = new OwnedResources();
    const writes = await Promise.all(
      WRITERS.map(async (lane, writer) => {
        // A client for a private lane declares roots. Each one writes while the others do.
        const client = clients.use(await InteropClient.connect("v1", memory.sidecar.url, { lane }));
        const names = Array.from({ length: WRITES_EACH }, (_, index) => `${writer}-${index}`);
        await Promise.all(names.map((name) => client.toolText("create_entities", { entities: [{ ...ADA, name }] })));
        return names;
      }),
    );
    const lines = (await readFile(memory.graphPath, "utf8")).split("\n").map((line) => JSON.parse(line) as typeof ADA);
    expect(lines.map(({ name }) => name).toSorted()).toEqual(writes.flat().toSorted());
  });

  it("the client gets the server's error about a failed operation", async () => {
    await using memory = await startMemory();
    const observations = [{ entityName: "Nobody", contents: ["x"] }];
    expect(await memory.client.callTool({ name: "add_observations", arguments: { observations } })).toEqual({
      content: [{ type: "text", text: "Entity with name Nobody not found" }],
      isError: true,
    });
  });

  it("the graph survives the exit of the server", async () => {
    await using memory = await startMemory();
    const { client, sidecar } = memory;
    await structured(client, "create_entities", { entities: [ADA] });
    await crash(sidecar);
    expect(await structured(client, "read_graph")).toEqual({ entities: [ADA], relations: [] });
    await crash(sidecar);
    await structured(client, "create_entities", { entities: [ENGINE] });
    expect(await structured(client, "read_graph")).toEqual({ entities: [ADA, ENGINE], relations: [] });
    expect(client.sent.filter(({ method }) => method === "initialize")).toHaveLength(1);
  });
});
