import { EventStream } from "./event-stream.ts";
import { type Headers, type HttpCall, type HttpReply, send } from "./http-client.ts";
import { type JsonRpcMessage, messageTexts, resultText } from "./json-rpc.ts";
import { JSON_HEADERS } from "./mcp-client.ts";
import { once } from "node:events";

export const MODERN_VERSION = "2026-07-28";

/** The reserved keys of `_meta`. */
export const META = {
  protocolVersion: "io.modelcontextprotocol/protocolVersion",
  clientCapabilities: "io.modelcontextprotocol/clientCapabilities",
  clientInfo: "io.modelcontextprotocol/clientInfo",
  logLevel: "io.modelcontextprotocol/logLevel",
  serverInfo: "io.modelcontextprotocol/serverInfo",
  subscriptionId: "io.modelcontextprotocol/subscriptionId",
} as const;

type Params = Readonly<Record<string, unknown>>;
/** Replaces or adds headers; undefined removes one. The case of names does not matter. */
type HeaderChanges = Readonly<Record<string, string | undefined>>;

export interface ModernClientOptions {
  readonly headers?: HeaderChanges;
  readonly token?: string | undefined;
  /** The capabilities that each request declares. */
  readonly capabilities?: object;
  readonly protocolVersion?: string;
  readonly agent?: HttpCall["agent"];
}

export interface ModernCall {
  /** The next number by default. `null` sends a notification. */
  readonly id?: string | number | null;
  /** Replaces or adds keys of `_meta`; undefined removes one. `null` sends no `_meta`. */
  readonly meta?: Params | null;
  readonly headers?: HeaderChanges;
  /** The answers to the questions of an `input_required` result, and its state. */
  readonly inputResponses?: object;
  readonly requestState?: unknown;
  /** Closes the connection, even before the response begins. */
  readonly signal?: AbortSignal;
}

/** The JSON-RPC response, and the messages before it. */
export interface ModernReply extends JsonRpcMessage {
  readonly status: number;
  readonly headers: HttpReply["headers"];
  readonly notifications: readonly JsonRpcMessage[];
  /** All messages as they were received, the response last. */
  readonly texts: readonly string[];
}

/** A low-level client of MCP 2026-07-28. It has no session: each request names version, capabilities and client, and all of that can be changed. */
export class ModernClient {
  url: string;
  readonly #options: ModernClientOptions;
  #lastId = 0;

  constructor(url: string, options: ModernClientOptions = {}) {
    this.url = url;
    this.#options = options;
  }

  /** Returns the body and the headers of a request, for tests that send them in their own way. */
  compose(method: string, params: Params = {}, call: ModernCall = {}): { readonly body: string; readonly headers: Headers } {
    const { id = ++this.#lastId, inputResponses, requestState } = call;
    const meta = call.meta === null ? undefined : this.#meta({ ...(params["_meta"] as object | undefined), ...call.meta });
    const message = { jsonrpc: "2.0", id: id ?? undefined, method, params: { ...params, inputResponses, requestState, _meta: meta } };
    const version = meta?.[META.protocolVersion];
    const name = headerName(method, params);
    const standard = {
      ...this.#headers(),
      ...(typeof version === "string" ? { "MCP-Protocol-Version": version } : {}),
      "Mcp-Method": headerValue(method),
      ...(typeof name === "string" ? { "Mcp-Name": headerValue(name) } : {}),
    };
    return { body: JSON.stringify(message), headers: changed(standard, this.#options.headers, call.headers) };
  }

  /** Sends a request. @returns its response, from a body or a stream. @throws if there is none. */
  async request(method: string, params: Params = {}, call: ModernCall = {}): Promise<ModernReply> {
    return readReply(await this.#send(this.compose(method, params, call), call));
  }

  callTool(name: string, args: object = {}, call: ModernCall = {}): Promise<ModernReply> {
    return this.request("tools/call", { name, arguments: args }, call);
  }

  async toolText(name: string, args: object = {}, call: ModernCall = {}): Promise<string> {
    return resultText(await this.callTool(name, args, call));
  }

  notify(method: string, params: Params = {}, call: ModernCall = {}): Promise<HttpReply> {
    return this.#send(this.compose(method, params, { ...call, id: null }), call);
  }

  /** Posts any body without the headers `Mcp-Method` and `Mcp-Name`: an object or a batch is serialized, a text is sent unchanged. */
  post(message: unknown, call: Pick<ModernCall, "headers" | "signal"> = {}): Promise<HttpReply> {
    const body = typeof message === "string" || Buffer.isBuffer(message) ? message : JSON.stringify(message);
    return this.#send({ body, headers: changed(this.#headers(), this.#options.headers, call.headers) }, call);
  }

  /** Sends a request. Resolves when the response begins. */
  begin(method: string, params: Params = {}, call: ModernCall = {}): Promise<EventStream> {
    return EventStream.open(this.url, { method: "POST", ...this.compose(method, params, call), ...signalOf(call) });
  }

  beginTool(name: string, args: object = {}, call: ModernCall = {}): Promise<EventStream> {
    return this.begin("tools/call", { name, arguments: args }, call);
  }

  /** Subscribes to notifications. Resolves with the acknowledgement. @throws if the request is rejected. */
  async listen(filter: object, call: ModernCall = {}): Promise<ModernListen> {
    const { id = ++this.#lastId } = call;
    return ModernListen.open(await this.begin("subscriptions/listen", { notifications: filter }, { ...call, id }));
  }

  #send(message: { readonly body: string | Buffer; readonly headers: Headers }, call: Pick<ModernCall, "signal">): Promise<HttpReply> {
    return send(this.url, { agent: this.#options.agent, ...message, ...signalOf(call) });
  }

  #meta(changes: Params): Params {
    return {
      [META.protocolVersion]: this.#options.protocolVersion ?? MODERN_VERSION,
      [META.clientCapabilities]: this.#options.capabilities ?? {},
      [META.clientInfo]: { name: "raw", version: "1" },
      ...changes,
    };
  }

  #headers(): Headers {
    const { token, protocolVersion = MODERN_VERSION } = this.#options;
    return {
      ...JSON_HEADERS,
      "MCP-Protocol-Version": protocolVersion,
      ...(token === undefined ? {} : { Authorization: `Bearer ${token}` }),
    };
  }
}

/** Returns a header's value for a text. One that HTTP would change or reject is encoded. */
export function headerValue(text: string): string {
  const isPlain = /^[\x20-\x7E]*$/.test(text) && text.trim() === text && !/^=\?base64\?.*\?=$/.test(text);
  return isPlain ? text : `=?base64?${Buffer.from(text).toString("base64")}?=`;
}

function headerName(method: string, params: Params): unknown {
  if (method === "tools/call" || method === "prompts/get") return params["name"];
  if (method === "resources/read") return params["uri"];
  return ["tasks/get", "tasks/update", "tasks/cancel"].includes(method) ? params["taskId"] : undefined;
}

function changed(headers: Headers, ...changes: readonly (HeaderChanges | undefined)[]): Headers {
  const entries = new Map<string, readonly [string, string]>(Object.entries(headers).map((entry) => [entry[0].toLowerCase(), entry]));
  for (const [name, value] of changes.flatMap((each) => Object.entries(each ?? {}))) {
    if (value === undefined) entries.delete(name.toLowerCase());
    else entries.set(name.toLowerCase(), [name, value]);
  }
  return Object.fromEntries(entries.values());
}

function signalOf({ signal }: Pick<ModernCall, "signal">): Pick<HttpCall, "signal"> {
  return signal === undefined ? {} : { signal };
}

function readReply(reply: HttpReply): ModernReply {
  const texts = messageTexts(reply);
  const last = texts.at(-1) ?? "";
  if (!last.startsWith("{")) throw new Error(`not a JSON-RPC message: ${reply.status} ${reply.body}`);
  const messages = texts.map((text) => JSON.parse(text) as JsonRpcMessage);
  const response = messages.pop();
  if (response === undefined || response.method !== undefined) throw new Error(`ended without a response: ${reply.status} ${reply.body}`);
  return { ...response, status: reply.status, headers: reply.headers, notifications: messages, texts };
}

export class ModernListen implements AsyncDisposable {
  /** The response, for its headers and comments. */
  readonly stream: EventStream;
  readonly acknowledgement: JsonRpcMessage;

  private constructor(stream: EventStream, acknowledgement: JsonRpcMessage) {
    this.stream = stream;
    this.acknowledgement = acknowledgement;
  }

  /** @throws if the response does not begin with an acknowledgement. */
  static async open(stream: EventStream): Promise<ModernListen> {
    if (!stream.isStream) throw new Error(`subscriptions/listen: ${stream.status} ${await stream.body()}`);
    const first = await stream.next();
    if (first.method === "notifications/subscriptions/acknowledged") return new ModernListen(stream, first);
    stream.close();
    throw new Error(`not an acknowledgement: ${JSON.stringify(first)}`);
  }

  /** The accepted part of the filter. */
  get accepted(): unknown {
    return this.acknowledgement.params?.["notifications"];
  }

  /** Returns the next message: a notification, or the result that ends the subscription. @throws at the end of the stream. */
  next(): Promise<JsonRpcMessage> {
    return this.stream.next();
  }

  /** Returns all unread messages, up to the end of the stream. */
  rest(): Promise<JsonRpcMessage[]> {
    return this.stream.rest();
  }

  async close(): Promise<void> {
    this.stream.close();
    if (!this.stream.response.closed) await once(this.stream.response, "close");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}
