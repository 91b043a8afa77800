// First, because zod reads the configuration when it is loaded.
import "./without-generated-code.ts";
import {
  Client,
  type JSONRPCMessage,
  type jsonSchemaValidator,
  type Progress,
  SdkHttpError,
  StreamableHTTPClientTransport,
} from "@modelcontextprotocol/client";
import type { JsonObject } from "./form-schema.ts";
import { type CallResult, callResultOf, type ListedTool, listedTools, type OpenQuestions, type ToolList } from "./tool.ts";

/** The sidecar and the reader end calls, not the client. */
const TIMEOUT_MS = 24 * 60 * 60 * 1000;
/** Each takes one of the browser's six connections, and so do the stream of updates, answers and cancellations. */
const MAX_RUNNING = 3;
const MAX_LIST_PAGES = 64;
const MAX_TOOLS = 5000;
const NOT_FOUND = 404;
const METHOD_NOT_ALLOWED = 405;

/** The key of the result that `withUncheckedParts` has moved. */
const UNCHECKED = "claw-mcp-stdio/unchecked";
/** The page shows results as they are. */
const noValidator: jsonSchemaValidator = {
  getValidator: () => (input) => ({ valid: true, data: input as never, errorMessage: undefined }),
};

interface Connection {
  readonly client: Client;
  readonly transport: StreamableHTTPClientTransport;
}

/**
 * The page's calls of the MCP endpoint, with the official client. It connects when it is first used. It has a session, which works with each
 * server: without one, its discovery could make the sidecar start a second process.
 */
export class McpCalls {
  readonly #url: URL;
  readonly #token: string | undefined;
  readonly #questions: OpenQuestions;
  /** By whether tools may ask. The one for calls that may not ask has no capabilities, so that the sidecar needs no process for its questions. */
  readonly #connections = new Map<boolean, Promise<Connection>>();
  #running = 0;

  constructor(url: URL, token: string | undefined, questions: OpenQuestions) {
    this.#url = url;
    this.#token = token;
    this.#questions = questions;
  }

  listTools(): Promise<ToolList> {
    return this.#with(false, async (client) => {
      const entries: unknown[] = [];
      let cursor: string | undefined;
      for (let page = 0; page < MAX_LIST_PAGES; page++) {
        const result = await client.request({ method: "tools/list", params: cursor === undefined ? {} : { cursor } });
        const { tools, nextCursor } = uncheckedResult(result) as { readonly tools: readonly unknown[]; readonly nextCursor?: string };
        for (const tool of tools) entries.push(tool);
        if (nextCursor === undefined || nextCursor === cursor || entries.length >= MAX_TOOLS) break;
        cursor = nextCursor;
      }
      return listedTools(entries.slice(0, MAX_TOOLS));
    });
  }

  callTool(
    tool: ListedTool,
    args: JsonObject,
    mayAsk: boolean,
    signal: AbortSignal,
    onProgress: (progress: Progress) => void,
  ): Promise<CallResult> {
    if (this.#running >= MAX_RUNNING) {
      return Promise.reject(new Error(`${MAX_RUNNING} calls of this page are running. Wait for one of them, or cancel it.`));
    }
    this.#running++;
    return this.#with(mayAsk, async (client) => {
      const result = await client.callTool(
        { name: tool.name, arguments: { ...args } },
        {
          signal,
          onprogress: onProgress,
          timeout: TIMEOUT_MS,
        },
      );
      return callResultOf(uncheckedResult(result));
    }).finally(() => {
      this.#running--;
    });
  }

  /** Ends the sessions, even when the page is left. */
  close(): void {
    const end = async ({ client, transport }: Connection): Promise<void> => {
      await transport.terminateSession().catch(() => undefined);
      await client.close();
    };
    for (const each of this.#connections.values()) void each.then(end).catch(() => undefined);
    this.#connections.clear();
  }

  /** After a restart, the sidecar answers 404 to unknown sessions. The request was not sent to the server, so it is repeated in a new session. */
  async #with<Result>(mayAsk: boolean, use: (client: Client) => Promise<Result>): Promise<Result> {
    const connection = this.#connection(mayAsk);
    try {
      return await use((await connection).client);
    } catch (error) {
      if (!(error instanceof SdkHttpError) || error.status !== NOT_FOUND) throw error;
      this.#forget(mayAsk, connection);
      return use((await this.#connection(mayAsk)).client);
    }
  }

  #connection(mayAsk: boolean): Promise<Connection> {
    const known = this.#connections.get(mayAsk);
    if (known !== undefined) return known;
    const connecting = this.#connect(mayAsk);
    this.#connections.set(mayAsk, connecting);
    connecting.catch(() => this.#forget(mayAsk, connecting));
    return connecting;
  }

  async #connect(mayAsk: boolean): Promise<Connection> {
    const client = new Client(
      { name: "claw-mcp-stdio page", version: "1" },
      {
        capabilities: mayAsk ? { elicitation: { form: {} } } : {},
        jsonSchemaValidator: noValidator,
      },
    );
    if (mayAsk) {
      client.setRequestHandler("elicitation/create", (request, context) => {
        if (!("requestedSchema" in request.params)) return { action: "decline" };
        return this.#questions.ask(request.params, context.mcpReq.signal);
      });
    }
    const transport = new StreamableHTTPClientTransport(this.#url, { fetch: (target, init) => this.#fetch(target, init) });
    await client.connect(transport, { timeout: TIMEOUT_MS });
    const receive = transport.onmessage;
    Object.assign(transport, { onmessage: (message: JSONRPCMessage) => receive?.(withUncheckedParts(message)) });
    return { client, transport };
  }

  /** Forgets a connection, unless another call has replaced it. */
  #forget(mayAsk: boolean, connection: Promise<Connection>): void {
    if (this.#connections.get(mayAsk) !== connection) return;
    this.#connections.delete(mayAsk);
    connection.then(({ client }) => client.close()).catch(() => undefined);
  }

  #fetch(target: string | URL, init?: RequestInit): Promise<Response> {
    // The client's stream for other messages would take one of the browser's six connections for each open page.
    if (init?.method === "GET") return Promise.resolve(new Response(null, { status: METHOD_NOT_ALLOWED }));
    const headers = new Headers(init?.headers);
    if (this.#token !== undefined) headers.set("Authorization", `Bearer ${this.#token}`);
    // The end of a session is sent even if the page is gone.
    return fetch(target, { ...init, headers, keepalive: init?.method === "DELETE" });
  }
}

/** Hides tools and contents from the client. It would reject the whole result if one entry is invalid. */
function withUncheckedParts(message: JSONRPCMessage): JSONRPCMessage {
  if (!("result" in message)) return message;
  const { tools, content, structuredContent: _structured, isError: _isError, _meta: meta, ...rest } = message.result;
  const moved = { ...meta, [UNCHECKED]: message.result };
  if (Array.isArray(tools)) return { ...message, result: { ...rest, tools: [], _meta: moved } };
  if (Array.isArray(content)) return { ...message, result: { ...rest, content: [], _meta: moved } };
  return message;
}

/** Returns the result as the server sent it. */
function uncheckedResult(result: object): unknown {
  const { _meta: meta }: { readonly _meta?: Readonly<Record<string, unknown>> } = result;
  return meta?.[UNCHECKED] ?? result;
}
