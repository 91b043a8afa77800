// An MCP server with an honest tool, and with tricks that the attacker calls. Its JSON-RPC is hand-written, because libraries do not
// allow such tricks. Usage: main.ts TOOLS ERA, with the name of a tool list and a `ServerEra`.

import { readLines, readSwitch, recordProcess, say, sayLine } from "../../chaos/server/process.ts";
import { META, MODERN_VERSION } from "../../test/support/modern-client.ts";
import { FORBIDDEN_MARK, type ServerEra, SLOW_LIST_SWITCH, type ToolList } from "../contract.ts";
import { listedTools } from "./listed-tools.ts";
import { TRICKS } from "./tricks.ts";

type Id = string | number;

interface Message {
  readonly id?: Id;
  readonly method?: string;
  readonly params?: Readonly<Record<string, unknown>>;
}

const CAPABILITIES = { tools: { listChanged: true }, logging: {}, resources: { subscribe: true, listChanged: true } };
recordProcess(process.pid, "server");
const toolList = (process.argv[2] ?? "plain") as ToolList;
const era = (process.argv[3] ?? "legacy") as ServerEra;

readLines(onLine);

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
      return acknowledge(id, params?.["notifications"]);
    case "tools/list":
      return onList(id);
    case "tools/call":
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

function onInitialize(id: Id, params: Message["params"]): void {
  say({
    id,
    result: {
      protocolVersion: params?.["protocolVersion"],
      capabilities: CAPABILITIES,
      serverInfo: { name: "hostile", version: "1.0.0" },
    },
  });
}

function onDiscover(id: Id): void {
  say({
    id,
    result: { resultType: "complete", supportedVersions: [MODERN_VERSION], capabilities: CAPABILITIES, ttlMs: 0, cacheScope: "private" },
  });
}

function onList(id: Id): void {
  const answer = (): void =>
    sayLine(`{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":{"resultType":"complete","tools":${listedTools(toolList)}}}`);
  const delay = readSwitch(SLOW_LIST_SWITCH);
  if (delay === undefined) answer();
  else if (delay !== "never") setTimeout(answer, Number(delay));
}

function onCall(id: Id, name: string, args: Readonly<Record<string, unknown>>, params: Readonly<Record<string, unknown>>): void {
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

function sayText(id: Id, text: string): void {
  say({ id, result: { resultType: "complete", content: [{ type: "text", text }] } });
}

/** The id of the request is that of the subscription. */
function acknowledge(id: Id, notifications: unknown): void {
  say({ method: "notifications/subscriptions/acknowledged", params: { _meta: { [META.subscriptionId]: id }, notifications } });
}

/**
 * Replaces escapes of ASCII characters. This server must parse names like servers in Python or Go, even on an engine whose JSON.parse
 * misreads names with escapes (nodejs/node#63785).
 */
function plainNames(line: string): string {
  if (!line.includes("\\u00")) return line;
  return line.replaceAll(/\\(?:u00(?<hex>[2-7][0-9a-f])|[^])/gi, (escape: string, hex: string | undefined) => {
    const character = hex === undefined ? "" : String.fromCharCode(Number.parseInt(hex, 16));
    return character === "" || character === '"' || character === "\\" ? escape : character;
  });
}
