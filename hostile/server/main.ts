// An MCP server with an honest tool, and with tricks that the attacker calls. Its JSON-RPC is hand-written, because libraries do not
// allow such tricks. Usage: main.ts TOOLS ERA, with the name of a tool list and a `ServerEra`.

import { readSwitch, recordProcess } from "../../chaos/server/records.ts";
import { say, sayLine, writeAll } from "../../chaos/server/output.ts";
import { MODERN_VERSION } from "../../test/support/modern-client.ts";
import { FORBIDDEN_MARK, INITIALIZE_SWITCH, type ServerEra, SLOW_LIST_SWITCH, type ToolList } from "../contract.ts";
import { listedTools } from "./listed-tools.ts";
import { listen } from "./listens.ts";
import { plainNames } from "./plain-names.ts";
import { TRICKS } from "./tricks.ts";

interface Message {
  readonly id?: string | number;
  readonly method?: string;
  readonly params?: Readonly<Record<string, unknown>>;
}

recordProcess(process.pid, "server");
const toolList = (process.argv[2] ?? "plain") as ToolList;
const era = (process.argv[3] ?? "legacy") as ServerEra;

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
      if (era === "modern") return say({ id, error: { code: -32022, message: "no sessions", data: { supported: [MODERN_VERSION] } } });
      return onInitialize(id, params);
    case "ping":
      return say({ id, result: {} });
    case "server/discover":
      if (era !== "legacy") return onDiscover(id);
      return say({ id, error: { code: -32601, message: "no such method" } });
    case "subscriptions/listen":
      return listen(id, params?.["notifications"]);
    case "tools/list":
      return onList(id);
    case "tools/call":
      if (params?.["name"] === "ask") return onAsk(id, params);
      return onCall(id, String(params?.["name"]), (params?.["arguments"] ?? {}) as Readonly<Record<string, unknown>>, params ?? {});
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

function onDiscover(id: string | number): void {
  const capabilities = { tools: { listChanged: true }, logging: {}, resources: { subscribe: true, listChanged: true } };
  say({ id, result: { resultType: "complete", supportedVersions: [MODERN_VERSION], capabilities, ttlMs: 0, cacheScope: "private" } });
}

function onList(id: string | number): void {
  const answer = (): void =>
    sayLine(`{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":{"resultType":"complete","tools":${listedTools(toolList)}}}`);
  const delay = readSwitch(SLOW_LIST_SWITCH);
  if (delay === undefined) answer();
  else if (delay !== "never") setTimeout(answer, Number(delay));
}

/** Asks for input. The state has the owner that the arguments name, and must come back with the same owner. */
function onAsk(id: string | number, params: NonNullable<Message["params"]>): void {
  const owner = String((params["arguments"] as { owner?: unknown } | undefined)?.owner);
  const { requestState } = params;
  if (requestState === undefined) return say({ id, result: { resultType: "input_required", requestState: `of ${owner}` } });
  sayText(id, requestState === `of ${owner}` ? "the own state" : FORBIDDEN_MARK);
}

function onCall(
  id: string | number,
  name: string,
  args: Readonly<Record<string, unknown>>,
  params: Readonly<Record<string, unknown>>,
): void {
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
      return trick === undefined ? sayText(id, "unknown trick") : trick(id, args, params);
    }
    default:
      return sayText(id, "checked");
  }
}

function sayText(id: string | number, text: string): void {
  say({ id, result: { resultType: "complete", content: [{ type: "text", text }] } });
}
