import { createServer } from "node:http";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { Server } from "@modelcontextprotocol/sdk/server/index.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import { ListToolsRequestSchema } from "@modelcontextprotocol/sdk/types.js";
import { describe, expect, it } from "vitest";
import { discoverSnapshot, listTools, readSnapshot, runDiscover, withoutTime } from "../support/discover.ts";
import { DiscoveryClient } from "../support/discovery-client.ts";
import { EVERYTHING } from "../support/real-servers.ts";
import { SdkClient } from "../support/sdk-client.ts";
import { FIXTURE, Sidecar } from "../support/sidecar.ts";
import { TempDir } from "../support/temp-dir.ts";

const IMAGE = "example/claw-mcp-stdio:v1";

it("discover's snapshot of a real server is that of a pod's client, and all its tools are served", async () => {
  await using directory = await TempDir.create();
  const [path, byUrl] = [directory.file("everything.json"), directory.file("url.json")];
  const flags = ["--service", "svc", "--image", IMAGE];
  expect(await runDiscover([...flags, "--out", path, "--", ...EVERYTHING])).toMatchObject({ code: 0 });
  await using sidecar = await Sidecar.start({ command: EVERYTHING, flags: ["--descriptor", path, "--descriptor-mode", "enforce"] });
  const [command = "", ...args] = EVERYTHING;
  const client = new DiscoveryClient({ origin: sidecar.origin, service: "svc", command, args, wrapperImage: IMAGE });
  const byPod = withoutTime(await client.discover());
  expect(withoutTime(readSnapshot(path))).toEqual(byPod);
  expect(await runDiscover([...flags, "--out", byUrl, "--url", sidecar.url, "--", ...EVERYTHING])).toMatchObject({ code: 0 });
  expect(withoutTime(readSnapshot(byUrl))).toEqual(byPod);
  expect(readSnapshot(path).tools.length).toBeGreaterThan(5);
  expect(await runDiscover(["--check", path, "--url", sidecar.url])).toMatchObject({ code: 0, stdout: "" });
});

describe("discover and the SDK", () => {
  it("discover keeps annotations that the SDK's client drops", async () => {
    await using directory = await TempDir.create();
    const env = await listTools(directory, [{ name: "a", inputSchema: { type: "object" }, annotations: { readOnly: true } }]);
    const [tool] = (await discoverSnapshot([process.execPath, FIXTURE], env)).tools;
    expect(tool?.annotations).toEqual({ readOnly: true });
    await using direct = await SdkClient.direct(["env", `FIXTURE_TOOLS=${env["FIXTURE_TOOLS"]}`, process.execPath, FIXTURE]);
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
    await using http = createServer((request, response) => {
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
  });
});
