// An MCP server with an honest tool, and with tricks that the attacker calls. Its JSON-RPC is hand-written, because libraries do not
// allow such tricks. Usage: main.ts TOOLS, with the name of a tool list.

import { readSwitch, recordProcess } from "../../chaos/server/records.ts";
import { say, sayLine, writeAll } from "../../chaos/server/output.ts";
import { FORBIDDEN_MARK, INITIALIZE_SWITCH, type ToolList } from "../contract.ts";
import { listedTools } from "./listed-tools.ts";
import { plainNames } from "./plain-names.ts";
import { TRICKS } from "./tricks.ts";

interface Message {
  readonly id?: string | number;
  readonly method?: string;
  readonly params?: Readonly<Record<string, unknown>>;
}

recordProcess(process.pid, "server");
const toolList = (process.argv[2] ?? "plain") as ToolList;

let pieces: string[] = [];
process.stdin.setEncoding("utf8");
process.stdin.on("data", (chunk: string) => {
  if (!chunk.includes("\n")) {
    pieces.push(chunk);
    return;
  }
  const lines = (pieces.join("") + chunk).split("\n");
  pieces = [lines.pop() ?? ""];
  for (const line of lines) if (line !== "") onLine(line);
});
// The sidecar has exited, or terminates this server.
process.stdin.on("end", () => process.exit(0));

/** Length above which only the head of a line is parsed, so that this server does not delay the bystander. */
const READ_LENGTH = 256 * 1024;

function onLine(line: string): void {
  onMessage(line.length > READ_LENGTH ? readHead(line) : (JSON.parse(plainNames(line)) as Message), line);
}

/** Reads the members of a long message that are needed. In the attacks, they are at its beginning. */
function readHead(line: string): Message {
  const head = line.slice(0, 1000);
  const id = /"id":(?<id>-?\d+|"[^"]*")/.exec(head)?.groups?.["id"];
  const method = /"method":"(?<method>[^"]*)/.exec(head)?.groups?.["method"];
  const name = /"name":"(?<name>[^"]*)/.exec(head)?.groups?.["name"];
  return {
    ...(id === undefined ? {} : { id: JSON.parse(id) as string | number }),
    ...(method === undefined ? {} : { method }),
    params: { name, protocolVersion: "2025-11-25" },
  };
}

function onMessage({ id, method, params }: Message, line: string): void {
  if (id === undefined || method === undefined) return;
  switch (method) {
    case "initialize":
      return onInitialize(id, params);
    case "ping":
      return say({ id, result: {} });
    case "tools/list":
      return sayLine(`{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":{"tools":${listedTools(toolList)}}}`);
    case "tools/call":
      return onCall(id, String(params?.["name"]), (params?.["arguments"] ?? {}) as Readonly<Record<string, unknown>>);
    case "resources/subscribe":
    case "resources/unsubscribe":
    case "logging/setLevel":
      return say({ id, result: {} });
    default:
      // Echoes the request, as some servers do. It is written as text, because it can be deeply nested.
      return sayLine(`{"jsonrpc":"2.0","id":${JSON.stringify(id)},"error":{"code":-32601,"message":"no such method","data":${line}}}`);
  }
}

function onInitialize(id: string | number, params: Message["params"]): void {
  const deepData = Number(readSwitch(INITIALIZE_SWITCH) ?? 0);
  if (deepData > 0) {
    writeAll(1, `{"jsonrpc":"2.0","id":${JSON.stringify(id)},"error":{"code":-32000,"message":"no","data":`);
    writeAll(1, `${"[".repeat(deepData)}${"]".repeat(deepData)}}}\n`);
    return;
  }
  say({
    id,
    result: {
      protocolVersion: params?.["protocolVersion"],
      capabilities: { tools: { listChanged: true }, logging: {}, resources: { subscribe: true, listChanged: true } },
      serverInfo: { name: "hostile", version: "1.0.0" },
    },
  });
}

function onCall(id: string | number, name: string, args: Readonly<Record<string, unknown>>): void {
  switch (name) {
    case "echo": {
      const answer = (): void => sayText(id, typeof args["text"] === "string" ? args["text"] : "nothing");
      const delayMs = Number(args["delayMs"] ?? 0);
      if (delayMs > 0) setTimeout(answer, delayMs);
      else answer();
      return;
    }
    case "wire_id":
      return sayText(id, String(id));
    case "exit":
      return process.exit(3);
    case "strict":
      // The listed schema does not allow `force`.
      return sayText(id, args["force"] === undefined ? "strict" : FORBIDDEN_MARK);
    case "denied":
      return sayText(id, FORBIDDEN_MARK);
    case "trick": {
      const trick = TRICKS[String(args["trick"])];
      return trick === undefined ? sayText(id, "unknown trick") : trick(id, args);
    }
    default:
      return sayText(id, "checked");
  }
}

function sayText(id: string | number, text: string): void {
  say({ id, result: { content: [{ type: "text", text }] } });
}
