import { Client, ProtocolError, SdkHttpError, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { isJsonObject, isShallow, type JsonObject, type McpExecution } from "../manifest.ts";
import { boundedFetch, callInProgress, ResponseTooLarge } from "./mcp-fetch.ts";
import { failure, type Outcome } from "./results.ts";

const CLOSE_TIMEOUT_MS = 1000;

interface Connection {
  readonly client: Promise<Client>;
  /** Ends all of its requests. */
  readonly closed: AbortController;
  calls: number;
  isForgotten: boolean;
}

/** The clients of MCP servers: one for each endpoint and token, for all agents. The SDK finds out the era of the server. */
export class McpServers {
  readonly #connections = new Map<string, Connection>();

  async call(execution: McpExecution, args: JsonObject, timeoutMs: number, signal: AbortSignal): Promise<Outcome> {
    const call = new AbortController();
    const limit = AbortSignal.any([signal, call.signal]);
    try {
      return await callInProgress.run(call, () => this.#call(execution, args, timeoutMs, limit));
    } catch (error) {
      if (call.signal.reason instanceof ResponseTooLarge) return failure("response_too_large", call.signal.reason.message);
      throw error;
    } finally {
      // A server may go on sending.
      call.abort();
    }
  }

  async #call(execution: McpExecution, args: JsonObject, timeoutMs: number, signal: AbortSignal): Promise<Outcome> {
    const key = `${execution.base_url}${execution.path} ${execution.auth?.token ?? ""}`;
    for (let isRepeated = false; ; isRepeated = true) {
      const connection = this.#connections.get(key) ?? this.#connect(key, execution);
      connection.calls++;
      try {
        const client = await raceAbort(connection.client, signal);
        return outcomeOf(await client.callTool({ name: execution.tool, arguments: args }, { timeout: timeoutMs, signal }));
      } catch (error) {
        if (signal.aborted) throw error;
        if (error instanceof ProtocolError) return failure("mcp_error", error.message, { mcp_code: error.code, data: error.data });
        if (!(error instanceof SdkHttpError)) throw error;
        const { status, text } = (error.data ?? {}) as { readonly status?: number; readonly text?: string };
        // 404: the server did not know the session, so it has not taken the call.
        if (status === 404) this.#forget(key, connection);
        if (status === 404 && !isRepeated) continue;
        return failure(`http_${status}`, messageIn(text) ?? error.message);
      } finally {
        connection.calls--;
        closeIfUnused(connection);
      }
    }
  }

  async close(): Promise<void> {
    const connections = [...this.#connections.values()];
    this.#connections.clear();
    await Promise.allSettled(
      connections.map(async ({ client, closed }) => {
        // A server may not answer, neither the handshake nor the end of a session.
        setTimeout(() => closed.abort(), CLOSE_TIMEOUT_MS).unref();
        await (await client).close();
      }),
    );
  }

  #connect(key: string, execution: McpExecution): Connection {
    const closed = new AbortController();
    // All calls use it, so it does not end with the first one.
    const client = callInProgress.exit(() => connect(execution, closed.signal));
    const connection = { client, closed, calls: 0, isForgotten: false };
    this.#connections.set(key, connection);
    // A failure to connect is not kept.
    connection.client.catch(() => this.#forget(key, connection));
    return connection;
  }

  #forget(key: string, connection: Connection): void {
    if (this.#connections.get(key) === connection) this.#connections.delete(key);
    connection.isForgotten = true;
  }
}

/** Closes the client of a session that has ended, but not below the calls of other agents. */
function closeIfUnused({ client, closed, calls, isForgotten }: Connection): void {
  if (!isForgotten || calls > 0) return;
  client
    .then((each) => each.close())
    .catch(() => undefined)
    .finally(() => closed.abort());
}

async function connect({ base_url, path, auth }: McpExecution, closed: AbortSignal): Promise<Client> {
  const client = new Client({ name: "managed-tools", version: "0.0.0" }, { versionNegotiation: { mode: "auto" } });
  const headers = auth === undefined ? {} : { Authorization: `Bearer ${auth.token}` };
  await client.connect(
    new StreamableHTTPClientTransport(new URL(base_url + path), { requestInit: { headers }, fetch: boundedFetch(closed) }),
  );
  return client;
}

/** Another call may have begun to connect, so the connection is not aborted. */
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

/** Returns the message of a JSON-RPC error. Those of the sidecar say if the call was sent, and what to do. */
function messageIn(text = ""): string | undefined {
  try {
    const body = JSON.parse(text) as unknown;
    const error = isJsonObject(body) ? body["error"] : undefined;
    return isJsonObject(error) ? String(error["message"]) : undefined;
  } catch {
    return undefined;
  }
}
