import type { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { McpError } from "@modelcontextprotocol/sdk/types.js";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { CONFORMANCE_SERVER } from "../support/conformance.ts";
import { disposeAfterAll } from "../support/dispose-after-all.ts";
import { EVERYTHING, filesystem, MEMORY } from "../support/real-servers.ts";
import { SdkClient } from "../support/sdk-client.ts";
import { InteropClient } from "../support/sdk-clients.ts";
import { EXAMPLE, Sidecar } from "../support/sidecar.ts";
import { TempDir } from "../support/temp-dir.ts";

interface RealServer {
  readonly name: string;
  readonly command: (directory: string) => readonly string[];
  readonly env?: (directory: string) => Readonly<Record<string, string>>;
}

const SERVERS: readonly RealServer[] = [
  { name: "everything", command: () => EVERYTHING },
  { name: "filesystem", command: filesystem },
  { name: "memory", command: () => MEMORY, env: (directory) => ({ MEMORY_FILE_PATH: join(directory, "graph.jsonl") }) },
  { name: "echo example", command: () => [process.execPath, EXAMPLE] },
];

async function offerOf(client: Client, capabilities = client.getServerCapabilities()): Promise<object> {
  return {
    capabilities,
    server: client.getServerVersion(),
    instructions: client.getInstructions(),
    tools: capabilities?.tools && (await client.listTools()),
    prompts: capabilities?.prompts && (await client.listPrompts()),
    resources: capabilities?.resources && (await client.listResources()),
    resourceTemplates: capabilities?.resources && (await client.listResourceTemplates()),
  };
}

/** The outcome of a call: the result, or the error as its client sees it. */
async function outcomeOf(call: Promise<unknown>): Promise<unknown> {
  try {
    return { result: await call };
  } catch (error) {
    if (!(error instanceof McpError)) throw error;
    return { code: error.code, message: error.message, data: error.data };
  }
}

const CALLS: readonly [title: string, call: (client: Client) => Promise<unknown>][] = [
  ["a tool", (client) => client.callTool({ name: "echo", arguments: { message: 'ünï "quoted" \u2028 \\ \n 🦀' } })],
  ["a tool with structured content", (client) => client.callTool({ name: "get-structured-content", arguments: { location: "Chicago" } })],
  ["a tool with an image", (client) => client.callTool({ name: "get-tiny-image" })],
  [
    "a tool with annotated content",
    (client) => client.callTool({ name: "get-annotated-message", arguments: { messageType: "error", includeImage: true } }),
  ],
  ["a tool with resource links", (client) => client.callTool({ name: "get-resource-links", arguments: { count: 4 } })],
  ["a tool with wrong arguments", (client) => client.callTool({ name: "get-sum", arguments: { a: "one" } })],
  ["an unknown tool", (client) => client.callTool({ name: "constructor", arguments: {} })],
  ["a prompt", (client) => client.getPrompt({ name: "args-prompt", arguments: { city: "Zürich", state: "ZH" } })],
  ["an unknown prompt", (client) => client.getPrompt({ name: "no-such-prompt" })],
  ["a prompt without its arguments", (client) => client.getPrompt({ name: "args-prompt", arguments: {} })],
  ["a resource", (client) => client.readResource({ uri: "demo://resource/static/document/architecture.md" })],
  ["an unknown resource", (client) => client.readResource({ uri: "demo://no/such/resource" })],
  [
    "a completion",
    (client) =>
      client.complete({
        ref: { type: "ref/prompt", name: "completable-prompt" },
        argument: { name: "name", value: "A" },
        context: { arguments: { department: "Engineering" } },
      }),
  ],
  [
    "a completion for an unknown prompt",
    (client) => client.complete({ ref: { type: "ref/prompt", name: "no-such-prompt" }, argument: { name: "a", value: "" } }),
  ],
];

describe("a real server behind the sidecar", () => {
  it.each(SERVERS)("$name declares and lists the same as without the sidecar", async ({ command, env }) => {
    await using directory = await TempDir.create();
    const environment = env?.(directory.path) ?? {};
    await using direct = await SdkClient.direct(command(directory.path), environment);
    await using unshared = await Sidecar.start({ command: command(directory.path), env: environment, flags: ["--isolation", "session"] });
    await using client = await SdkClient.connect(unshared.url);
    const expected = await offerOf(direct);
    expect(await offerOf(client)).toStrictEqual(expected);

    await using shared = await Sidecar.start({ command: command(directory.path), env: environment });
    await using sharing = await SdkClient.connect(shared.url);
    // A client that could list tasks would see those of all clients.
    const { tasks: { list: _list, ...tasks } = {}, ...capabilities } = direct.getServerCapabilities() ?? {};
    const sharedCapabilities = direct.getServerCapabilities()?.tasks === undefined ? capabilities : { ...capabilities, tasks };
    expect(await offerOf(sharing)).toStrictEqual(await offerOf(direct, sharedCapabilities));
    expect(expected).toMatchObject({
      capabilities: { tools: {} },
      tools: { tools: expect.arrayContaining([expect.anything()]) as unknown[] },
    });
  });
});

describe("the everything server behind the sidecar and without it", async () => {
  const direct = disposeAfterAll(await SdkClient.direct(EVERYTHING));
  const sidecar = disposeAfterAll(await Sidecar.start({ command: EVERYTHING }));
  const client = disposeAfterAll(await SdkClient.connect(sidecar.url));

  it.each(CALLS)("the response is the same as without the sidecar: %s", async (_title, call) => {
    expect(await outcomeOf(call(client))).toStrictEqual(await outcomeOf(call(direct)));
  });
});

const sidecar = disposeAfterAll(await Sidecar.start({ command: CONFORMANCE_SERVER }));

describe.each(["2025-06-18", "2025-03-26", "2024-11-05", "2024-10-07"])("the v2 client that only supports %s", (revision) => {
  it.each(["private", "shared"] as const)("a %s server works in that revision", async (lane) => {
    await using client = await InteropClient.connect("v2", sidecar.url, { lane, revision });
    const seen: number[] = [];
    const onprogress = ({ progress }: { progress: number }): void => void seen.push(progress);
    expect(client.protocolVersion).toBe(revision);
    expect(await client.toolText("test_steps", { steps: 3, text: "old" }, { onprogress })).toBe("old");
    expect(seen).toEqual([1, 2, 3]);
    expect(client.errors).toEqual([]);
  });
});
