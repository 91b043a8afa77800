import { Client, ProtocolError, SdkHttpError, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { isJsonObject, isShallow, type JsonObject, MAX_MS, type McpExecution } from "../manifest.ts";
import { parseJson } from "./json.ts";
import { boundedFetch, callInProgress } from "./mcp-fetch.ts";
import { failure, type Outcome } from "./results.ts";

interface Connection {
  readonly client: Promise<Client>;
  /** Ends all of its requests. */
  readonly closed: AbortController;
  calls: number;
  isForgotten: boolean;
}

class ConnectTimeout extends Error {}

/** The clients of MCP servers: one for each endpoint and token, for all agents. The SDK finds out the era of the server. */
export class McpServers {
  readonly #connections = new Map<string, Connection>();

  /** Must be called in a call that is in progress. @param timeoutMs of the call, also for the connection that it may begin. */
  async call(execution: McpExecution, args: JsonObject, timeoutMs: number, signal: AbortSignal): Promise<Outcome> {
    const key = `${execution.base_url}${execution.path} ${execution.auth?.token ?? ""}`;
    for (let isRepeated = false; ;) {
      const joined = this.#connections.get(key);
      const connection = joined ?? this.#connect(key, execution, timeoutMs);
      connection.calls++;
      let client: Client | undefined;
      try {
        client = await raceAbort(connection.client, signal);
        // The signal has the time limit.
        return outcomeOf(await client.callTool({ name: execution.tool, arguments: args }, { timeout: MAX_MS, signal }));
      } catch (error) {
        // The next call tries anew, and does not wait for a connection that may be lost.
        if (client === undefined) this.#forget(key, connection);
        if (signal.aborted) throw error;
        // The time of the call that began to connect was over. There is some left for this one.
        if (error instanceof ConnectTimeout && joined !== undefined) continue;
        if (error instanceof ProtocolError)
          return failure("mcp_error", error.message, { mcp_code: error.code, data: error.data, ...sentIn(error.data) });
        if (!(error instanceof SdkHttpError)) throw error;
        const { status, text } = (error.data ?? {}) as { readonly status?: number; readonly text?: string };
        // 404: the server did not know the session, so it has not taken the call.
        if (status === 404) this.#forget(key, connection);
        if (status === 404 && client !== undefined && !isRepeated) {
          isRepeated = true;
          startAgain();
          continue;
        }
        const { message, data } = errorIn(text);
        return failure(`http_${status}`, message ?? error.message, client === undefined ? { sent: false } : sentIn(data));
      } finally {
        connection.calls--;
        closeIfUnused(connection);
      }
    }
  }

  async close(): Promise<void> {
    const connections = [...this.#connections.values()];
    this.#connections.clear();
    await Promise.all(connections.map(close));
  }

  #connect(key: string, execution: McpExecution, timeoutMs: number): Connection {
    const closed = new AbortController();
    const timer = setTimeout(() => closed.abort(new ConnectTimeout(`no connection within ${timeoutMs} ms`)), timeoutMs);
    // All calls use it, so it does not end with the first one.
    const client = callInProgress.exit(() => raceAbort(connect(execution, closed.signal), closed.signal));
    const connection = { client, closed, calls: 0, isForgotten: false };
    this.#connections.set(key, connection);
    // A failure to connect is not kept.
    client.catch(() => this.#forget(key, connection)).finally(() => clearTimeout(timer));
    return connection;
  }

  #forget(key: string, connection: Connection): void {
    if (this.#connections.get(key) === connection) this.#connections.delete(key);
    connection.isForgotten = true;
  }
}

/** Closes a connection that no further call will use, but not below the calls of other agents. */
function closeIfUnused(connection: Connection): void {
  if (connection.isForgotten && connection.calls === 0) void close(connection);
}

/** Ends all requests, also the handshake. */
async function close({ client, closed }: Connection): Promise<void> {
  closed.abort();
  await client.then((each) => each.close()).catch(() => undefined);
}

/** The server has rejected the call. */
function startAgain(): void {
  const call = callInProgress.getStore();
  if (call !== undefined) call.isSent = false;
}

async function connect({ base_url, path, auth }: McpExecution, closed: AbortSignal): Promise<Client> {
  const client = new Client({ name: "managed-tools", version: "0.0.0" }, { versionNegotiation: { mode: "auto" } });
  const headers = auth === undefined ? {} : { Authorization: `Bearer ${auth.token}` };
  const transport = new StreamableHTTPClientTransport(new URL(base_url + path), { requestInit: { headers }, fetch: boundedFetch(closed) });
  await client.connect(transport, { timeout: MAX_MS });
  return client;
}

/** Another call may use the same promise, so its work is not aborted. */
function raceAbort<Value>(promise: Promise<Value>, signal: AbortSignal): Promise<Value> {
  return new Promise((resolve, reject) => {
    const onAbort = (): void => reject(signal.reason as Error);
    if (signal.aborted) onAbort();
    signal.addEventListener("abort", onAbort, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener("abort", onAbort));
  });
}

function outcomeOf({ content, structuredContent, isError }: Awaited<ReturnType<Client["callTool"]>>): Outcome {
  const texts = content.map((part) => (part.type === "text" ? part.text : JSON.stringify(part)));
  const text = texts.join("\n");
  if (isError === true) return failure("tool_error", text);
  return { ok: true, data: structuredContent !== undefined && isShallow(structuredContent) ? structuredContent : text };
}

/** Returns the JSON-RPC error of a response. Those of the sidecar say if the call was sent, and what to do. */
function errorIn(text = ""): { readonly message?: string; readonly data?: unknown } {
  const body = parseJson(text);
  const error = isJsonObject(body) ? body["error"] : undefined;
  return isJsonObject(error) ? { message: String(error["message"]), data: error["data"] } : {};
}

function sentIn(data: unknown): { readonly sent?: false } {
  return isJsonObject(data) && data["sent"] === false ? { sent: false } : {};
}
