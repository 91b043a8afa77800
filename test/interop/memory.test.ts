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
