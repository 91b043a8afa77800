// An MCP server with faults on request. Its JSON-RPC is hand-written, because libraries do not allow such faults.

import {
  ASK_TOOL,
  CRASH_LOOP_FAULT,
  CRASH_LOOP_FILE,
  type CrashLoopKind,
  SERVER_NAME,
  TOOL_FAULTS,
  type ToolArguments,
  type ToolFault,
} from "../contract.ts";
import {
  answerLine,
  ask,
  type AskingCall,
  decideEra,
  discoverResult,
  endListen,
  isModern,
  listen,
  onAnswer,
  resultMembers,
  servesHandshake,
  subscribedUris,
} from "./answers.ts";
import { FAULTS } from "./faults.ts";
import { readLines, readSwitch, recordCall, recordFault, recordProcess, say, sayLine, writeAll } from "./process.ts";

interface Message {
  readonly id?: string | number;
  readonly method?: string;
  readonly result?: unknown;
  readonly params?: Readonly<Record<string, unknown>>;
}

const crashLoop = readSwitch(CRASH_LOOP_FILE) as CrashLoopKind | undefined;

recordProcess(process.pid, "server");
if (crashLoop === "crash-at-start") endInLoop(1);
if (crashLoop === "clean-exit-at-start") endInLoop(0);

const TOOLS = ["echo", ASK_TOOL, ...Object.keys(TOOL_FAULTS)].map((name) => ({ name, inputSchema: { type: "object" } }));

readLines((line) => onMessage(JSON.parse(line) as Message));

function endInLoop(code: number): never {
  recordFault(CRASH_LOOP_FAULT);
  writeAll(2, "cannot open the database\n");
  process.exit(code);
}

function onMessage({ id, method, params, result }: Message): void {
  if (id !== undefined && method === undefined) return onAnswer(id, result);
  if (method === "notifications/cancelled") endListen(params?.["requestId"]);
  if (id === undefined || method === undefined) return;
  decideEra(method, params);
  switch (method) {
    case "initialize":
    case "server/discover":
      return onHandshake(id, method, params);
    case "ping":
    case "logging/setLevel":
      return say({ id, result: {} });
    case "resources/subscribe":
      subscribedUris.add(String(params?.["uri"]));
      return say({ id, result: {} });
    case "resources/unsubscribe":
      subscribedUris.delete(String(params?.["uri"]));
      return say({ id, result: {} });
    case "subscriptions/listen":
      return isModern() ? listen(id, params?.["notifications"] ?? {}) : say({ id, error: { code: -32601, message: "no subscriptions" } });
    case "tools/list":
      return say({ id, result: { ...resultMembers(), ...(isModern() ? { ttlMs: 0, cacheScope: "private" } : {}), tools: TOOLS } });
    case "tools/call":
      return onCall(String(params?.["name"]), {
        id,
        inputResponses: params?.["inputResponses"] as AskingCall["inputResponses"],
        arguments: params?.["arguments"] as ToolArguments,
        progressToken: (params?.["_meta"] as { progressToken?: string | number } | undefined)?.progressToken,
      });
    default:
      return say({ id, error: { code: -32601, message: `no method ${method}` } });
  }
}

function onHandshake(id: string | number, method: "initialize" | "server/discover", params: Message["params"]): void {
  if (!servesHandshake(method)) return say({ id, error: { code: method === "initialize" ? -32022 : -32601, message: `no ${method}` } });
  if (crashLoop === "crash-at-initialize") endInLoop(1);
  if (method === "server/discover") return say({ id, result: discoverResult() });
  say({
    id,
    result: {
      protocolVersion: params?.["protocolVersion"],
      capabilities: { tools: { listChanged: true }, resources: { subscribe: true }, logging: {} },
      serverInfo: { name: SERVER_NAME, version: "1.0.0" },
    },
  });
}

function onCall(name: string, call: AskingCall): void {
  // A client without a session repeats the call that asks, with its answer.
  if (name !== ASK_TOOL) recordCall(call.arguments);
  if (Object.hasOwn(FAULTS, name)) {
    recordFault(name);
    return FAULTS[name as ToolFault](call);
  }
  const { id, progressToken, arguments: args } = call;
  if (name === ASK_TOOL) return ask(call);
  if (name !== "echo") return say({ id, error: { code: -32602, message: `no tool ${name}` } });
  if (progressToken !== undefined) say({ method: "notifications/progress", params: { progressToken, progress: 1 } });
  if (args.delayMs === 0) sayLine(answerLine(call));
  else setTimeout(() => sayLine(answerLine(call)), args.delayMs);
}
