import { ArgumentCheckBench } from "../support/argument-check-bench.ts";
import { writeFile } from "node:fs/promises";
import { expect, it } from "vitest";
import { EVERYTHING, filesystem, MEMORY } from "../support/real-servers.ts";
import { InteropClient, SDKS } from "../support/sdk-clients.ts";
import { Sidecar } from "../support/sidecar.ts";
import { TempDir } from "../support/temp-dir.ts";

type Calls = readonly (readonly [name: string, args: Record<string, unknown>])[];

interface RealServer {
  readonly server: string;
  readonly command: (directory: string) => readonly string[];
  /** Calls as the servers' clients make them. */
  readonly calls: (directory: string) => Calls;
  readonly wrong: readonly [name: string, args: Record<string, unknown>, problem: string];
}

const SERVERS: readonly RealServer[] = [
  {
    server: "everything",
    command: () => EVERYTHING,
    calls: () => [
      ["echo", { message: "hello" }],
      ["get-sum", { a: 1, b: 2.5 }],
      ["get-tiny-image", {}],
      ["get-annotated-message", { messageType: "error", includeImage: true }],
      ["get-structured-content", { location: "New York" }],
      ["get-resource-links", { count: 2 }],
    ],
    wrong: ["get-sum", { a: 1, b: "2" }, '"b" must be number'],
  },
  {
    server: "filesystem",
    command: filesystem,
    calls: (directory) => [
      ["read_text_file", { path: `${directory}/kept.txt` }],
      ["read_text_file", { path: `${directory}/kept.txt`, head: 1 }],
      ["read_multiple_files", { paths: [`${directory}/kept.txt`] }],
      ["list_directory", { path: directory }],
      ["write_file", { path: `${directory}/new.txt`, content: "x".repeat(100_000) }],
      ["edit_file", { path: `${directory}/kept.txt`, edits: [{ oldText: "kept", newText: "changed" }], dryRun: true }],
      ["search_files", { path: directory, pattern: "*.txt" }],
    ],
    wrong: ["edit_file", { path: "x", edits: [{ oldText: 1, newText: "" }] }, '"edits.0.oldText" must be string'],
  },
  {
    server: "memory",
    command: () => MEMORY,
    calls: () => [
      ["create_entities", { entities: [{ name: "a", entityType: "thing", observations: ["one"] }] }],
      ["create_relations", { relations: [{ from: "a", to: "a", relationType: "is" }] }],
      ["add_observations", { observations: [{ entityName: "a", contents: ["two"] }] }],
      ["search_nodes", { query: "a" }],
      ["read_graph", {}],
    ],
    wrong: ["create_entities", { entities: [{ name: "a", observations: [] }] }, "\"entities.0\" must have required property 'entityType'"],
  },
];

it.each(SERVERS)(
  "right arguments of both clients reach the $server server, and wrong ones are named",
  async ({ command, calls, wrong }) => {
    await using directory = await TempDir.create();
    const env = { MEMORY_FILE_PATH: directory.file("memory.json") };
    await using sidecar = await Sidecar.start({ command: command(directory.path), flags: ["--argument-check", "enforce"], env });
    for (const sdk of SDKS) {
      await writeFile(directory.file("kept.txt"), "kept");
      await using client = await InteropClient.connect(sdk, sidecar.url, { lane: "shared" });

      const check = new ArgumentCheckBench();
      const tools = await client.listTools();
      expect(tools.length).toBeGreaterThan(5);
      for (const tool of tools) await check.problemsOf([tool], "{}");
      expect(check.log.lines).toEqual([]);

      for (const [name, args] of calls(directory.path))
        expect([name, (await client.callTool(name, args)).isError ?? false]).toEqual([name, false]);
      const [name, args, problem] = wrong;
      const refused = await client.callTool(name, args);
      expect([refused.isError, refused.content[0]?.text]).toEqual([true, expect.stringContaining(`INVALID_ARGS: `)]);
      expect(refused.content[0]?.text).toContain(problem);
    }
    expect(sidecar.logLines.map(({ msg }) => msg)).not.toContain("argument schema skipped");
  },
);
