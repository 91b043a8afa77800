import { createMCPClient, ElicitationRequestSchema } from "@ai-sdk/mcp";
import { MultiServerMCPClient } from "@langchain/mcp-adapters";
import { MCPClient } from "@mastra/mcp";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { ElicitRequestSchema } from "@modelcontextprotocol/sdk/types.js";
import { MCPServerStreamableHttp } from "@openai/agents";
import { fileURLToPath } from "node:url";
import { TempDir } from "../support/temp-dir.ts";
import { DECLINED, firstText, type ForeignClient, type ForeignLibrary } from "./foreign-client.ts";

const MCP_REMOTE = fileURLToPath(import.meta.resolve("mcp-remote/dist/proxy.js"));
const LOOPBACK_ONLY = import.meta.resolve("./loopback-only.ts");

/** Only a hang reaches it; the default of three seconds is too short for a busy machine. */
const CONNECT_TIMEOUT_MS = 60_000;

let connections = 0;

export const LIBRARIES: readonly ForeignLibrary[] = [
  {
    name: "@ai-sdk/mcp",
    canElicit: true,
    era: "stateless",
    resumes: false,
    connect: async (url, { elicits = false } = {}) => {
      const client = await createMCPClient({ transport: { type: "http", url }, ...(elicits ? { capabilities: { elicitation: {} } } : {}) });
      if (elicits) client.onElicitationRequest(ElicitationRequestSchema, () => DECLINED);
      return {
        toolNames: async () => Object.keys(await client.tools()),
        toolText: async (name, args = {}) => firstText(await client.callTool({ name, arguments: { ...args } })),
        [Symbol.asyncDispose]: () => client.close(),
      };
    },
  },
  {
    name: "@langchain/mcp-adapters",
    canElicit: false,
    era: "sessions",
    resumes: true,
    connect: async (url) => {
      const client = new MultiServerMCPClient({ mcpServers: { sidecar: { transport: "http", url } } });
      await client.initializeConnections();
      const toolOf = async (name: string) => (await client.getTools()).find((tool) => tool.name === name);
      return {
        toolNames: async () => ((await (await client.getClient("sidecar"))?.listTools())?.tools ?? []).map(({ name }) => name),
        toolText: async (name, args = {}) => String(await (await toolOf(name))?.invoke({ ...args })),
        [Symbol.asyncDispose]: () => client.close(),
      };
    },
  },
  {
    name: "@openai/agents",
    canElicit: false,
    era: "stateless",
    resumes: true,
    connect: async (url) => {
      const server = new MCPServerStreamableHttp({ url });
      await server.connect();
      return {
        toolNames: async () => (await server.listTools()).map(({ name }) => name),
        toolText: async (name, args = {}) => firstText(await server.callTool(name, { ...args })),
        [Symbol.asyncDispose]: () => server.close(),
      };
    },
  },
  {
    name: "@mastra/mcp",
    canElicit: true,
    era: "stateless",
    resumes: true,
    connect: async (url, { elicits = false } = {}) => {
      const sidecar = {
        url: new URL(url),
        connectTimeout: CONNECT_TIMEOUT_MS,
        ...(elicits ? { inputRequests: () => Promise.resolve(DECLINED) } : {}),
      };
      const client = new MCPClient({ id: String(connections++), servers: { sidecar } });
      // As its agents do: the tools are listed once.
      const { sidecar: tools = {} } = await client.listToolsets();
      return {
        toolNames: async () => Object.keys((await client.listToolsets())["sidecar"] ?? {}),
        toolText: async (name, args = {}) => firstText(await tools[name]?.execute?.({ ...args }, {} as never)),
        [Symbol.asyncDispose]: () => client.disconnect(),
      };
    },
  },
  {
    name: "mcp-remote",
    canElicit: true,
    era: "sessions",
    resumes: true,
    connect: async (url, options) => connectRemote(url, ["--transport", "http-only"], options),
  },
  {
    name: "mcp-remote --transport sse-first",
    canElicit: true,
    era: "sessions",
    resumes: true,
    connect: async (url, options) => connectRemote(url, ["--transport", "sse-first"], options),
  },
  {
    name: "mcp-remote --protocol auto",
    canElicit: true,
    era: "stateless",
    resumes: true,
    connect: async (url, options) => connectRemote(url, ["--transport", "http-only", "--protocol", "auto"], options),
  },
];

/** Connects with mcp-remote, a program on stdio, through a client of the SDK. */
async function connectRemote(url: string, flags: readonly string[], { elicits = false } = {}): Promise<ForeignClient> {
  const home = await TempDir.create();
  const client = new Client({ name: "foreign", version: "1.0.0" }, { capabilities: elicits ? { elicitation: {} } : {} });
  if (elicits) client.setRequestHandler(ElicitRequestSchema, () => DECLINED);
  const program = ["--import", LOOPBACK_ONLY, MCP_REMOTE, url, "--allow-http", ...flags];
  const env = { MCP_REMOTE_CONFIG_DIR: home.path, HOME: home.path, NODE_COMPILE_CACHE: process.env["NODE_COMPILE_CACHE"] ?? "" };
  await client.connect(new StdioClientTransport({ command: process.execPath, args: program, env, stderr: "ignore" }));
  return {
    toolNames: async () => (await client.listTools()).tools.map(({ name }) => name),
    toolText: async (name, args = {}) => firstText(await client.callTool({ name, arguments: { ...args } })),
    [Symbol.asyncDispose]: async () => {
      await client.close();
      await home[Symbol.asyncDispose]();
    },
  };
}
