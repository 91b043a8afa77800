#!/usr/bin/env node
// A small MCP server over stdio, without dependencies: one JSON-RPC message a line in, one a line out.
import { createInterface } from "node:readline";

const PROTOCOL_VERSIONS = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

const TOOLS = [
  {
    name: "echo",
    description: "Returns the text it is given.",
    inputSchema: { type: "object", properties: { text: { type: "string" } }, required: ["text"] },
    annotations: { readOnlyHint: true },
  },
  {
    name: "add",
    description: "Adds two numbers.",
    inputSchema: { type: "object", properties: { a: { type: "number" }, b: { type: "number" } }, required: ["a", "b"] },
    annotations: { readOnlyHint: true },
  },
];

const methods = {
  initialize: ({ protocolVersion }) => ({
    protocolVersion: PROTOCOL_VERSIONS.includes(protocolVersion) ? protocolVersion : PROTOCOL_VERSIONS[0],
    capabilities: { tools: {} },
    serverInfo: { name: "echo-server", version: "1.0.0" },
  }),
  ping: () => ({}),
  "tools/list": () => ({ tools: TOOLS }),
  "tools/call": ({ name, arguments: args = {} }) => {
    if (name === "echo" && typeof args.text === "string") return text(args.text);
    if (name === "add" && typeof args.a === "number" && typeof args.b === "number") return text(String(args.a + args.b));
    const isKnown = TOOLS.some((tool) => tool.name === name);
    return { ...text(isKnown ? `Invalid arguments for ${name}` : `Unknown tool: ${name}`), isError: true };
  },
};

function text(value) {
  return { content: [{ type: "text", text: value }] };
}

function answer({ id, method, params = {} }) {
  if (id === undefined || method === undefined) return undefined;
  if (!Object.hasOwn(methods, method)) return { jsonrpc: "2.0", id, error: { code: -32601, message: `Method not found: ${method}` } };
  return { jsonrpc: "2.0", id, result: methods[method](params) };
}

// The input ends when the client is done; then so does this program.
createInterface({ input: process.stdin }).on("line", (line) => {
  const response = answer(JSON.parse(line));
  if (response !== undefined) process.stdout.write(`${JSON.stringify(response)}\n`);
});
