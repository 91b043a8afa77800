import {
  Client,
  type ElicitRequestFormParams,
  type ElicitResult,
  type Progress,
  SdkHttpError,
  StreamableHTTPClientTransport,
} from "@modelcontextprotocol/client";
import { isJsonObject, type JsonObject } from "../json/text.ts";

export interface Question {
  readonly key: number;
  readonly message: string;
  readonly schema: ElicitRequestFormParams["requestedSchema"];
  readonly answer: (result: ElicitResult) => void;
}

export interface ListedTool {
  /** The name, and a number if the server lists it twice. */
  readonly key: string;
  readonly name: string;
  /** Empty if there is none, as is the description. */
  readonly title: string;
  readonly description: string;
  readonly annotations: JsonObject;
  readonly definition: JsonObject;
}

/** An entry without a name is omitted: it cannot be called. */
function listedTools(entries: readonly unknown[]): readonly ListedTool[] {
  const counts = new Map<string, number>();
  return entries.filter(isJsonObject).flatMap((definition) => {
    const { name, title, description } = definition;
    if (typeof name !== "string") return [];
    const annotations = isJsonObject(definition["annotations"]) ? definition["annotations"] : {};
    const count = counts.get(name) ?? 0;
    counts.set(name, count + 1);
    return {
      key: `${count} ${name}`,
      name,
      title: text(title) || text(annotations["title"]),
      description: text(description),
      annotations,
      definition,
    };
  });
}

function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}

/** The sidecar and the reader end calls, not the client. */
const TIMEOUT_MS = 24 * 60 * 60 * 1000;
/** Each takes one of the browser's six connections, and so do the stream of updates, answers and cancellations. */
const MAX_RUNNING = 3;
const MAX_LIST_PAGES = 64;
const MAX_TOOLS = 5000;
const NOT_FOUND = 404;
const METHOD_NOT_ALLOWED = 405;

/** The page shows results as they are, and one invalid entry must not hide the others. */
const ANY_RESULT = { "~standard": { version: 1, vendor: "claw-mcp-stdio", validate: (value: unknown) => ({ value }) } } as const;

/** It connects when first used, with a session: without one, its discovery could make the sidecar start a second process. */
export class McpCalls {
  readonly #url: URL;
  readonly #token: string | undefined;
  readonly #setQuestions: (next: (open: readonly Question[]) => readonly Question[]) => void;
  #questionCount = 0;
  /** By whether tools may ask. The one for calls that may not ask has no capabilities, so that the sidecar needs no process for its questions. */
  readonly #clients = new Map<boolean, Promise<Client>>();
  #running = 0;

  constructor(url: URL, token: string | undefined, setQuestions: (next: (open: readonly Question[]) => readonly Question[]) => void) {
    [this.#url, this.#token, this.#setQuestions] = [url, token, setQuestions];
  }

  listTools(): Promise<readonly ListedTool[]> {
    return this.#with(false, async (client) => {
      const entries: unknown[] = [];
      let cursor: string | undefined;
      for (let page = 0; page < MAX_LIST_PAGES; page++) {
        const result = await client.request({ method: "tools/list", params: cursor === undefined ? {} : { cursor } }, ANY_RESULT);
        const { tools, nextCursor }: JsonObject = isJsonObject(result) ? result : {};
        for (const tool of Array.isArray(tools) ? (tools as unknown[]) : []) entries.push(tool);
        if (typeof nextCursor !== "string" || nextCursor === cursor || entries.length >= MAX_TOOLS) break;
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
  ): Promise<JsonObject> {
    if (this.#running >= MAX_RUNNING) {
      return Promise.reject(new Error(`${MAX_RUNNING} calls of this page are running. Wait for one of them, or cancel it.`));
    }
    this.#running++;
    return this.#with(mayAsk, async (client) => {
      const params = { name: tool.name, arguments: args };
      const options = { signal, onprogress: onProgress, timeout: TIMEOUT_MS };
      const result = await client.request({ method: "tools/call", params }, ANY_RESULT, options);
      return isJsonObject(result) ? result : {};
    }).finally(() => {
      this.#running--;
    });
  }

  /** Ends the sessions, even when the page is left. */
  close(): void {
    const end = async (client: Client): Promise<void> => {
      if (client.transport instanceof StreamableHTTPClientTransport) await client.transport.terminateSession().catch(() => undefined);
      await client.close();
    };
    for (const each of this.#clients.values()) void each.then(end).catch(() => undefined);
    this.#clients.clear();
  }

  /** After a restart, the sidecar answers 404 to unknown sessions. The request was not sent to the server, so it is repeated in a new session. */
  async #with<Result>(mayAsk: boolean, use: (client: Client) => Promise<Result>): Promise<Result> {
    const client = this.#client(mayAsk);
    try {
      return await use(await client);
    } catch (error) {
      if (!(error instanceof SdkHttpError) || error.status !== NOT_FOUND) throw error;
      this.#forget(mayAsk, client);
      return use(await this.#client(mayAsk));
    }
  }

  #client(mayAsk: boolean): Promise<Client> {
    const known = this.#clients.get(mayAsk);
    if (known !== undefined) return known;
    const connecting = this.#connect(mayAsk);
    this.#clients.set(mayAsk, connecting);
    connecting.catch(() => this.#forget(mayAsk, connecting));
    return connecting;
  }

  async #connect(mayAsk: boolean): Promise<Client> {
    const client = new Client({ name: "claw-mcp-stdio page", version: "1" }, { capabilities: mayAsk ? { elicitation: { form: {} } } : {} });
    if (mayAsk) {
      client.setRequestHandler("elicitation/create", (request, context) => {
        if (!("requestedSchema" in request.params)) return { action: "decline" };
        return this.#ask(request.params, context.mcpReq.signal);
      });
    }
    const transport = new StreamableHTTPClientTransport(this.#url, { fetch: (target, init) => this.#fetch(target, init) });
    await client.connect(transport, { timeout: TIMEOUT_MS });
    return client;
  }

  #ask({ message, requestedSchema: schema }: ElicitRequestFormParams, signal: AbortSignal): Promise<ElicitResult> {
    return new Promise((resolve) => {
      const answer = (result: ElicitResult): void => {
        this.#setQuestions((open) => open.filter((each) => each !== question));
        resolve(result);
      };
      const question: Question = { key: this.#questionCount++, message, schema, answer };
      this.#setQuestions((open) => [...open, question]);
      signal.addEventListener("abort", () => answer({ action: "cancel" }), { once: true });
    });
  }

  #forget(mayAsk: boolean, client: Promise<Client>): void {
    if (this.#clients.get(mayAsk) !== client) return;
    this.#clients.delete(mayAsk);
    client.then((each) => each.close()).catch(() => undefined);
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
