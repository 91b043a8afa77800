import { execFile, spawn } from "node:child_process";
import { readFile } from "node:fs/promises";
import { promisify } from "node:util";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { SSEClientTransport } from "@modelcontextprotocol/sdk/client/sse.js";
import { Ingress } from "kubernetes-models/networking.k8s.io/v1";
import { describe, expect, it } from "vitest";
import { parse } from "yaml";
import { disposeAfterAll } from "../../support/dispose-after-all.ts";
import { EventStream } from "../../support/event-stream.ts";
import { say } from "../../support/held-call.ts";
import { send } from "../../support/http-client.ts";
import { readDocument } from "../../support/markdown.ts";
import { McpClient } from "../../support/mcp-client.ts";
import { freePort } from "../../support/open-sockets.ts";
import { SdkClient } from "../../support/sdk-client.ts";
import { InteropClient } from "../../support/sdk-clients.ts";
import { MAIN, Sidecar } from "../../support/sidecar.ts";
import { TempDir } from "../../support/temp-dir.ts";
import { Nginx } from "./nginx.ts";

const TOOLS_CHANGED = '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}';
const PAGE = readDocument("docs/operations/reverse-proxy.md").text;

function codeBlock(name: string): string {
  const [, block] = new RegExp(`<!-- executed: ${name} -->\\n\`\`\`\\w+\\n(.*?)\`\`\``, "s").exec(PAGE) ?? [];
  if (block === undefined) throw new Error(`no code block ${name}`);
  return block;
}

/** Returns what ingress-nginx makes of an Ingress, as far as it matters here. */
function rendered(manifest: string, address: string): string {
  const { metadata, spec } = new Ingress(parse(manifest) as ConstructorParameters<typeof Ingress>[0]);
  const annotation = (name: string): string => metadata?.annotations?.[`nginx.ingress.kubernetes.io/${name}`] ?? "";
  const [{ host, http } = {}] = spec?.rules ?? [];
  const path = http?.paths[0]?.path ?? "";
  return `server {
    listen 443 ssl;
    server_name ${host};
    ssl_certificate mcp.example.crt;
    ssl_certificate_key mcp.example.key;
    location ~* "^${path}" {
      rewrite "(?i)${path}" ${annotation("rewrite-target")} break;
      proxy_read_timeout ${annotation("proxy-read-timeout")}s;
      client_max_body_size ${annotation("proxy-body-size")};
      proxy_buffering off;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_set_header Host $http_host;
      proxy_pass http://${address};
    }
  }`;
}

describe("the commands and the configuration of nginx in reverse-proxy.md", async () => {
  const folder = disposeAfterAll(await TempDir.create());
  const [makeToken = "", settings = "", ...commands] = codeBlock("sidecars").trim().split("\n");
  await promisify(execFile)("bash", ["-c", makeToken], { cwd: folder.path });
  const token = (await readFile(folder.file("tokens"), "utf8")).trim();
  let configuration = codeBlock("nginx");
  for (const command of commands) {
    const port = /--port (\d+)/.exec(command)?.[1] ?? "";
    const free = await freePort();
    configuration = configuration.replace(`:${port}/`, `:${free}/`);
    const started = command.replace("claw-mcp-stdio", `'${process.execPath}' '${MAIN}'`).replace(port, String(free)).replace(/ &$/, "");
    const script = `${settings.replace("=tokens", `=${folder.file("tokens")}`)}; exec ${started}`;
    const sidecar = disposeAfterAll(new Sidecar(spawn("bash", ["-c", script], { stdio: ["ignore", "pipe", "pipe"] })));
    await sidecar.waitForLog("mcp server ready");
  }
  const nginx = disposeAfterAll(await Nginx.start(configuration));
  const headers = { Authorization: `Bearer ${token}` };

  it("each prefix leads to its server", async () => {
    const names = async (prefix: string): Promise<string[]> => {
      await using client = await SdkClient.connect(`${nginx.origin}/${prefix}/mcp`, headers);
      return (await client.listTools()).tools.map(({ name }) => name);
    };
    expect(await names("everything")).toContain("get-sum");
    expect(await names("memory")).toContain("create_entities");
  });

  it("a server does not accept the session of the other one", async () => {
    const { sessionId } = await new McpClient(`${nginx.origin}/everything/mcp`, { token }).open();
    const elsewhere = new McpClient(`${nginx.origin}/memory/mcp`, { token, sessionId });
    expect(await elsewhere.post({ jsonrpc: "2.0", id: 1, method: "tools/list" })).toMatchObject({ status: 404 });
  });

  it("a client without a token, and one that names another host, are rejected", async () => {
    const call = { headers: { Host: "mcp.example", ...headers }, body: "{}" };
    expect(await send(`${nginx.origin}/everything/mcp`, { ...call, headers: { Host: "mcp.example" } })).toMatchObject({ status: 401 });
    expect((await send(`${nginx.origin}/everything/mcp`, call)).body).not.toContain("HOST_NOT_ALLOWED");
    const other = await send(`${nginx.origin}/everything/mcp`, { ...call, headers: { ...call.headers, Host: "other.example" } });
    expect(other.body).toContain("HOST_NOT_ALLOWED");
  });

  it("a body of 4 MB passes", async () => {
    await using client = await SdkClient.connect(`${nginx.origin}/everything/mcp`, headers);
    const message = "x".repeat(4_000_000);
    expect(await client.callTool({ name: "echo", arguments: { message } })).toMatchObject({ content: [{ text: `Echo: ${message}` }] });
  });

  it("the page is below the prefix", async () => {
    expect(await send(`${nginx.origin}/memory/`, { method: "GET" })).toMatchObject({ status: 200 });
  });
});

describe.each([
  { proxy: "nginx", configure: (address: string): string => codeBlock("nginx").replaceAll(/127\.0\.0\.1:808\d/g, address) },
  { proxy: "an Ingress", configure: (address: string): string => rendered(codeBlock("ingress"), address) },
])("a sidecar behind the prefix of $proxy", async ({ configure }) => {
  const sidecar = disposeAfterAll(await Sidecar.start({ flags: ["--legacy-sse"] }));
  const nginx = disposeAfterAll(await Nginx.start(configure(sidecar.address)));
  const base = `${nginx.origin}/everything/`;

  it("a client calls a tool, and opens its GET stream", async () => {
    await using client = await InteropClient.connect("v1", `${base}mcp`, { lane: "shared" });
    expect(await client.toolText("echo", { text: "hi" })).toBe("hi");
    expect(await client.requests.streamStatus).toBe(200);
  });

  it("an idle GET stream begins, and gets messages, although nginx buffers responses", async () => {
    const client = await sidecar.client();
    using stream = await EventStream.open(`${base}mcp`, { headers: { Accept: "text/event-stream", "Mcp-Session-Id": client.sessionId } });
    expect(await stream.block()).toEqual({ comment: "open" });
    await say(client, TOOLS_CHANGED);
    expect(await stream.next()).toEqual(JSON.parse(TOOLS_CHANGED));
  });

  it.each(["sse", "sse/"])("HTTP+SSE at %s names a URL under the prefix", async (path) => {
    const client = new Client({ name: "system", version: "1.0.0" });
    await client.connect(new SSEClientTransport(new URL(`${base}${path}`)));
    expect(await client.callTool({ name: "echo", arguments: { text: "hi" } })).toMatchObject({ content: [{ text: "hi" }] });
    await client.close();
  });
});

it("the Ingress is valid", () => {
  expect(() => new Ingress(parse(codeBlock("ingress")) as ConstructorParameters<typeof Ingress>[0]).validate()).not.toThrow();
});
