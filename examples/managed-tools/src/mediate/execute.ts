import { type HttpExecution, isJsonObject, isShallow, type JsonObject, type ManagedTool, PLACEHOLDER } from "../manifest.ts";
import { parseJson } from "./json.ts";
import { callInProgress, ResponseTooLarge } from "./mcp-fetch.ts";
import { McpServers } from "./mcp-servers.ts";
import { readText } from "./read-text.ts";
import { failure, notSent, type Outcome } from "./results.ts";

/** A longer response is not read to its end. */
const MAX_RESPONSE_BYTES = 4 * 1024 * 1024;
const MAX_REASON_LENGTH = 500;

/** Executes the calls of models. */
export class Executor {
  readonly #mcp = new McpServers();

  /** Never rejects. @param signal aborts with the turn. */
  async execute(tool: ManagedTool, args: unknown, timeoutMs: number, signal: AbortSignal): Promise<Outcome> {
    const { execution, inputSchema } = tool;
    if (!isJsonObject(args)) return notSent("invalid_arguments", "The arguments are not a JSON object, or are nested too deeply.");
    const { required = [], properties = {} } = inputSchema;
    const missing = (Array.isArray(required) ? required : []).filter((name) => !Object.hasOwn(args, String(name)));
    if (missing.length > 0) return notSent("invalid_arguments", `These arguments are missing: ${missing.join(", ")}.`);
    // An MCP server knows its arguments. A service may have others than those that its descriptor shows to models.
    const unknown = Object.keys(args).filter((name) => !Object.hasOwn(properties as JsonObject, name));
    if (execution.transport === "http" && unknown.length > 0 && !inputSchema["additionalProperties"])
      return notSent("invalid_arguments", `${tool.name} has no arguments ${unknown.join(", ")}.`);
    const call = { ended: new AbortController(), isSent: false };
    const limit = AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]);
    const requestLimit = AbortSignal.any([limit, call.ended.signal]);
    try {
      return await callInProgress.run(call, () =>
        execution.transport === "http" ? overHttp(execution, args, requestLimit) : this.#mcp.call(execution, args, timeoutMs, requestLimit),
      );
    } catch (error) {
      if (call.ended.signal.reason instanceof ResponseTooLarge) return failure("response_too_large", call.ended.signal.reason.message);
      const when = signal.aborted ? "before the turn ended" : `within ${timeoutMs} ms`;
      if (limit.aborted && call.isSent) return failure("timeout", `${tool.name} did not answer ${when}. It may have taken effect.`);
      if (limit.aborted) return notSent("timeout", `${execution.service} could not be reached ${when}. Nothing was sent.`);
      const message = rootOf(error as Error).message.slice(0, MAX_REASON_LENGTH);
      if (call.isSent)
        return failure("unreachable", `The answer of ${execution.service} cannot be read: ${message}. The call may have taken effect.`);
      return notSent("unreachable", `${execution.service} cannot be reached: ${message}. Nothing was sent.`);
    } finally {
      // A server may go on sending.
      call.ended.abort();
    }
  }

  close(): Promise<void> {
    return this.#mcp.close();
  }
}

async function overHttp({ base_url, method, path, body, auth }: HttpExecution, args: JsonObject, signal: AbortSignal): Promise<Outcome> {
  const rest = new Map(Object.entries(args));
  const inPath = new Set<string>();
  let isPathValid = true;
  const filled = path.replace(PLACEHOLDER, (_match, name: string) => {
    const value = textOf(args[name]);
    // Nothing, `.` and `..` would lead to another path.
    if (/^\.{0,2}$/.test(value)) isPathValid = false;
    inPath.add(name);
    return encodeURIComponent(value.toWellFormed());
  });
  if (!isPathValid) return notSent("invalid_arguments", "An argument is empty, or leads out of the path.");
  for (const name of inPath) rest.delete(name);
  const url = new URL(base_url + filled);
  const isJson = body === "json";
  if (!isJson) for (const [name, value] of rest) for (const each of [value].flat()) url.searchParams.append(name, textOf(each));
  const response = await fetch(url, {
    method,
    signal,
    // A redirect could lead the token to another host.
    redirect: "manual",
    headers: {
      Accept: "application/json, text/*;q=0.9, */*;q=0.1",
      ...(isJson ? { "Content-Type": "application/json" } : {}),
      ...(auth === undefined ? {} : { Authorization: `Bearer ${auth.token}` }),
    },
    ...(isJson ? { body: JSON.stringify(Object.fromEntries(rest)) } : {}),
  });
  const { text, isComplete } = await readText(response, MAX_RESPONSE_BYTES);
  const data = isComplete && response.headers.get("content-type")?.includes("json") === true ? parsed(text) : text;
  if (response.ok) return { ok: true, data, ...(isComplete ? {} : { truncated: true }) };
  return failure(`http_${response.status}`, `The service answered ${response.status}.`, { body: data });
}

/** `fetch` and the SDK wrap the error of the network. */
function rootOf(error: Error): Error {
  return error.cause instanceof Error ? rootOf(error.cause) : error;
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : (JSON.stringify(value) ?? "");
}

function parsed(text: string): unknown {
  const value = parseJson(text);
  return value !== undefined && isShallow(value) ? value : text;
}
