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
import type { JsonObject } from "../form/json-object.ts";
import { type CallResult, callResultOf } from "./call-result.ts";
import { type ListedTool, listedTools, type ToolList } from "./listed-tool.ts";
import type { OpenQuestions } from "./question.ts";

/** The sidecar and the reader end calls, not the client. */
const TIMEOUT_MS = 24 * 60 * 60 * 1000;
const MAX_LIST_PAGES = 64;
const MAX_TOOLS = 5000;
const NOT_FOUND = 404;

/** The key of the result that `withUncheckedParts` has moved. */
const UNCHECKED = "claw-mcp-stdio/unchecked";
/** The page shows results as they are. */
const noValidator: jsonSchemaValidator = {
  getValidator: () => (input) => ({ valid: true, data: input as never, errorMessage: undefined }),
};

export interface CallOptions {
  readonly mayAsk: boolean;
  readonly signal: AbortSignal;
  readonly onProgress: (progress: Progress) => void;
}

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
  readonly #onToolsChanged: () => void;
  /** Without capabilities, so that the sidecar needs no process for its questions. */
  #silent: Promise<Connection> | undefined;
  #asked: Promise<Connection> | undefined;

  constructor(url: URL, token: string | undefined, questions: OpenQuestions, onToolsChanged: () => void) {
    this.#url = url;
    this.#token = token;
    this.#questions = questions;
    this.#onToolsChanged = onToolsChanged;
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

  callTool(tool: ListedTool, args: JsonObject, { mayAsk, signal, onProgress }: CallOptions): Promise<CallResult> {
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
    });
  }

  /** Ends the sessions, even when the page is left. */
  close(): void {
    for (const each of [this.#silent, this.#asked]) void each?.then(endConnection, () => undefined);
    this.#silent = undefined;
    this.#asked = undefined;
  }

  /** A sidecar that was restarted knows no session: then the request was not executed, and is sent again in a new one. */
  async #with<Result>(mayAsk: boolean, use: (client: Client) => Promise<Result>): Promise<Result> {
    try {
      return await use((await this.#connection(mayAsk)).client);
    } catch (error) {
      if (!(error instanceof SdkHttpError) || error.status !== NOT_FOUND) throw error;
      this.#forget(mayAsk);
      return use((await this.#connection(mayAsk)).client);
    }
  }

  async #connection(mayAsk: boolean): Promise<Connection> {
    const known = mayAsk ? this.#asked : this.#silent;
    if (known !== undefined) return known;
    const connecting = this.#connect(mayAsk);
    if (mayAsk) this.#asked = connecting;
    else this.#silent = connecting;
    try {
      return await connecting;
    } catch (error) {
      this.#forget(mayAsk);
      throw error;
    }
  }

  async #connect(mayAsk: boolean): Promise<Connection> {
    const client = new Client(
      { name: "claw-mcp-stdio page", version: "1" },
      {
        capabilities: mayAsk ? { elicitation: { form: {} } } : {},
        jsonSchemaValidator: noValidator,
        ...(!mayAsk && { listChanged: { tools: { autoRefresh: false, onChanged: () => this.#onToolsChanged() } } }),
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

  #forget(mayAsk: boolean): void {
    if (mayAsk) this.#asked = undefined;
    else this.#silent = undefined;
  }

  #fetch(target: string | URL, init?: RequestInit): Promise<Response> {
    const headers = new Headers(init?.headers);
    if (this.#token !== undefined) headers.set("Authorization", `Bearer ${this.#token}`);
    // The end of a session is sent even if the page is gone.
    return fetch(target, { ...init, headers, keepalive: init?.method === "DELETE" });
  }
}

/** Moves the tools of a list and the content of a result out of the client's sight, because it rejects all of them if one is not valid. */
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

async function endConnection({ client, transport }: Connection): Promise<void> {
  await transport.terminateSession().catch(() => undefined);
  await client.close();
}
