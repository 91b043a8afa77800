// The official client: npm install @modelcontextprotocol/sdk@1 && node client.js http://localhost:8080/mcp
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const [url = "http://localhost:8080/mcp"] = process.argv.slice(2);
const token = process.env.CLAW_MCP_STDIO_AUTH_TOKEN;

const client = new Client({ name: "example-client", version: "1.0.0" });
const transport = new StreamableHTTPClientTransport(new URL(url), {
  requestInit: { headers: token ? { Authorization: `Bearer ${token}` } : {} },
});
await client.connect(transport);

const { tools } = await client.listTools();
console.log(`tools: ${tools.map(({ name }) => name).join(", ")}`);

// A tool of examples/echo-server. Another server has others.
if (tools.some(({ name }) => name === "add")) {
  const { content } = await client.callTool({ name: "add", arguments: { a: 2, b: 3 } });
  console.log(`2 + 3 = ${content[0].text}`);
}

// Ends the session in the sidecar too; close() alone leaves it there, to be taken up again.
await transport.terminateSession();
await client.close();
