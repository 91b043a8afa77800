import { createServer } from "node:http";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { Server } from "@modelcontextprotocol/sdk/server/index.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import { ListToolsRequestSchema } from "@modelcontextprotocol/sdk/types.js";
import { describe, expect, it } from "vitest";
import { discoverSnapshot, listTools, readSnapshot, runDiscover, withoutTime } from "../support/discover.ts";
import { DiscoveryClient, type Snapshot } from "../support/discovery-client.ts";
import { EVERYTHING } from "../support/real-servers.ts";
import { DirectClient } from "../support/sdk-client.ts";
import { EXAMPLE, FIXTURE, Sidecar } from "../support/sidecar.ts";
import { TempDir } from "../support/temp-dir.ts";

const IMAGE = "example/claw-mcp-stdio:v1";
const FLAGS = ["--service", "svc", "--image", IMAGE];

/** Takes snapshots of one sidecar, as a pod's client does and as `discover` does. */
async function throughSidecar(
  command: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<{ readonly byPod: Snapshot; readonly byUrl: Snapshot }> {
  await using directory = await TempDir.create();
  await using sidecar = await Sidecar.start({ command, env });
  const [executable = "", ...args] = command;
  const client = new DiscoveryClient({ origin: sidecar.origin, service: "svc", command: executable, args, wrapperImage: IMAGE });
  const byPod = await client.discover();
  const out = directory.file("url.json");
  expect(await runDiscover([...FLAGS, "--out", out, "--url", sidecar.url, "--", ...command])).toMatchObject({ code: 0 });
  return { byPod, byUrl: readSnapshot(out) };
}

async function byProcess(command: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<Snapshot> {
  await using directory = await TempDir.create();
  const { code, stderr } = await runDiscover([...FLAGS, "--", ...command], { env, cwd: directory.path });
  expect({ code, stderr }).toEqual({
    code: 0,
    stderr: expect.stringContaining("written to .claw-discovered/svc.claw-describe.json") as string,
  });
  return readSnapshot(directory.file(".claw-discovered/svc.claw-describe.json"));
}

describe("equality of discover's snapshot and that of a pod's client through a sidecar", () => {
  it("the snapshots of server-everything are equal", async () => {
    const { byPod, byUrl } = await throughSidecar(EVERYTHING);
    const snapshot = await byProcess(EVERYTHING);
    expect(snapshot.tools.length).toBeGreaterThan(5);
    expect(withoutTime(snapshot)).toEqual(withoutTime(byPod));
    expect(withoutTime(byUrl)).toEqual(withoutTime(byPod));
  });

  it("the snapshots of the example, and of a server of an older revision, are equal", async () => {
    for (const command of [
      [process.execPath, EXAMPLE],
      [process.execPath, FIXTURE, "old"],
    ]) {
      const { byPod, byUrl } = await throughSidecar(command);
      expect(withoutTime(await byProcess(command))).toEqual(withoutTime(byPod));
      expect(withoutTime(byUrl)).toEqual(withoutTime(byPod));
    }
  });

  it("the snapshots of a server with several pages equal those of one with one page", async () => {
    const tools = [
      { name: "plain" },
      { name: " spaced ", description: "  spaced  ", inputSchema: { properties: { a: { type: "string" } } } },
      { name: "annotated", description: "", annotations: { title: "T", readOnly: true, custom: { deep: [1, null] } } },
      {
        name: "typed",
        inputSchema: { type: "object", $schema: "http://json-schema.org/draft-07/schema#", "x-own": 1, additionalProperties: false },
      },
    ];
    const command = [process.execPath, FIXTURE];
    await using one = await TempDir.create();
    const { byPod, byUrl } = await throughSidecar(command, await listTools(one, tools));
    await using several = await TempDir.create();
    const env = await listTools(several, tools.slice(0, 1), tools.slice(1, 3), [], tools.slice(3));
    const snapshot = await byProcess(command, env);
    expect(snapshot.tools).toHaveLength(4);
    expect(withoutTime(snapshot)).toEqual(withoutTime(byPod));
    expect(withoutTime(byUrl)).toEqual(withoutTime(byPod));
    expect(withoutTime((await throughSidecar(command, env)).byUrl)).toEqual(withoutTime(byPod));
  });
});

describe("a sidecar with a descriptor", () => {
  it("a descriptor written by discover makes all its tools served, without drift", async () => {
    await using directory = await TempDir.create();
    const path = directory.file("everything.json");
    await runDiscover(["--out", path, "--", ...EVERYTHING]);
    await using sidecar = await Sidecar.start({ command: EVERYTHING, flags: ["--descriptor", path, "--descriptor-mode", "enforce"] });
    const { tools } = (await (await sidecar.client()).request("tools/list")).result as { tools: { name: string }[] };
    expect(tools.map(({ name }) => name)).toEqual(readSnapshot(path).tools.map(({ name }) => name));
    expect(await runDiscover(["--check", path, "--url", sidecar.url])).toMatchObject({ code: 0, stdout: "" });
  });
});

describe("discover and the SDK", () => {
  it("discover keeps annotations that the SDK's client drops", async () => {
    await using directory = await TempDir.create();
    const env = await listTools(directory, [{ name: "a", inputSchema: { type: "object" }, annotations: { readOnly: true } }]);
    const [tool] = (await discoverSnapshot([process.execPath, FIXTURE], env)).tools;
    expect(tool?.annotations).toEqual({ readOnly: true });
    await using direct = await DirectClient.connect(["env", `FIXTURE_TOOLS=${env["FIXTURE_TOOLS"]}`, process.execPath, FIXTURE]);
    expect((await direct.listTools()).tools[0]?.annotations).toEqual({});
  });

  it("discover --url reads an SDK server with event streams, and ends its session", async () => {
    const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: () => "the-only-one" });
    const server = new Server({ name: "sdk", version: "1" }, { capabilities: { tools: {} } });
    server.setRequestHandler(ListToolsRequestSchema, ({ params }) =>
      params?.cursor === undefined
        ? { tools: [{ name: "a", inputSchema: { type: "object" as const } }], nextCursor: "2" }
        : { tools: [{ name: "b", inputSchema: { type: "object" as const } }] },
    );
    await server.connect(transport);
    const mediaTypes: string[] = [];
    const methods: string[] = [];
    const http = createServer((request, response) => {
      methods.push(request.method ?? "");
      // With one header set, those of writeHead can be read as well.
      response.setHeader("X-Seen", "1");
      response.once("finish", () => mediaTypes.push(String(response.getHeader("content-type"))));
      void transport.handleRequest(request, response);
    }).listen(0, "127.0.0.1");
    await once(http, "listening");
    const snapshot = await discoverSnapshot(["--url", `http://127.0.0.1:${(http.address() as AddressInfo).port}/mcp`]);
    expect(snapshot.tools.map(({ name }) => name)).toEqual(["a", "b"]);
    expect(methods).toEqual(["POST", "POST", "POST", "POST", "DELETE"]);
    expect(mediaTypes).toContain("text/event-stream");
    await server.close();
    http.closeAllConnections();
    http.close();
    await once(http, "close");
  });
});
