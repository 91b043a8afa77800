import { EventStream } from "./event-stream.ts";
import { type Headers, type HttpCall, type HttpReply, send } from "./http-client.ts";
import { type JsonRpcMessage, readResponse, resultText } from "./json-rpc.ts";

const STREAM = "text/event-stream";
const JSON_OR_STREAM = `application/json, ${STREAM}`;

export const JSON_HEADERS = { "Content-Type": "application/json", Accept: JSON_OR_STREAM };

/** All capabilities for server requests. */
export const ASKABLE = { sampling: {}, elicitation: { form: {}, url: {} }, roots: { listChanged: true } };

export interface ClientOptions {
  readonly headers?: Headers;
  readonly token?: string | undefined;
  /** The `Accept` of `post`; the methods that open a stream always accept one. */
  readonly accept?: string;
  /** The capabilities that the client declares in `initialize`. */
  readonly capabilities?: object;
  /** The revision that the client requests. */
  readonly protocolVersion?: string | undefined;
  /** True to send the negotiated revision in `MCP-Protocol-Version`. */
  readonly sendsVersion?: boolean;
  /** Uses this session instead of opening one. */
  readonly sessionId?: string | undefined;
  readonly agent?: HttpCall["agent"];
}

export interface GetOptions {
  readonly lastEventId?: string | undefined;
  readonly headers?: Headers;
}

export type Reply = JsonRpcMessage & { readonly status: number };

export function initializeRequest(capabilities: object = {}, protocolVersion = "2025-11-25"): object {
  const params = { protocolVersion, capabilities, clientInfo: { name: "raw", version: "1" } };
  return { jsonrpc: "2.0", id: 1, method: "initialize", params };
}

export function toolCall(name: unknown, args: object = {}, id: string | number = 2, meta?: object): object {
  return { jsonrpc: "2.0", id, method: "tools/call", params: { name, arguments: args, _meta: meta } };
}

/** A low-level client of Streamable HTTP: it chooses its own ids and headers, and may send anything. */
export class McpClient {
  url: string;
  sessionId: string;
  protocolVersion = "";
  readonly #options: ClientOptions;

  constructor(url: string, options: ClientOptions = {}) {
    this.url = url;
    this.sessionId = options.sessionId ?? "";
    this.#options = options;
  }

  /** Sends initialize and notifications/initialized. */
  async open(): Promise<this> {
    await this.initialize();
    await this.notify("notifications/initialized");
    return this;
  }

  /** Opens a session without notifications/initialized. @throws if initialize is rejected. */
  async initialize(): Promise<JsonRpcMessage> {
    const { capabilities, protocolVersion } = this.#options;
    const reply = await this.post(initializeRequest(capabilities, protocolVersion));
    if (reply.status !== 200) throw new Error(`initialize: ${reply.status} ${reply.body}`);
    this.sessionId = String(reply.headers["mcp-session-id"]);
    const answer = readResponse(reply);
    this.protocolVersion = String(answer.result?.["protocolVersion"]);
    return answer;
  }

  postHeaders(headers: Headers = {}, accept = this.#options.accept ?? JSON_OR_STREAM): Headers {
    return { "Content-Type": "application/json", Accept: accept, ...this.#ownHeaders(), ...headers };
  }

  /** Returns the headers of a GET that opens a stream, or resumes one. */
  getHeaders({ lastEventId, headers = {} }: GetOptions = {}): Headers {
    const resumed = lastEventId === undefined ? {} : { "Last-Event-ID": lastEventId };
    return { Accept: STREAM, ...this.#ownHeaders(), ...resumed, ...headers };
  }

  /** Posts any body: an object or a batch is serialized, a text is sent unchanged. */
  post(message: unknown, call: HttpCall = {}): Promise<HttpReply> {
    const { agent } = this.#options;
    return send(this.url, { agent, ...call, body: serialize(message), headers: this.postHeaders(call.headers) });
  }

  /** Posts a message whose response may be a stream. Resolves when the response begins. */
  postForStream(message: unknown, headers: Headers = {}): Promise<EventStream> {
    const body = serialize(message);
    return EventStream.open(this.url, { method: "POST", body, headers: this.postHeaders(headers, JSON_OR_STREAM) });
  }

  /** Sends a GET whose response is not a stream. */
  get(options: GetOptions = {}): Promise<HttpReply> {
    return send(this.url, { method: "GET", headers: this.getHeaders(options) });
  }

  /** Opens a stream by GET, or resumes one. @throws if it is rejected. */
  async openStream(options: GetOptions = {}): Promise<EventStream> {
    const stream = await EventStream.open(this.url, { headers: this.getHeaders(options) });
    if (stream.status === 200) return stream;
    throw new Error(`GET: ${stream.status} ${await stream.body()}`);
  }

  notify(method: string, params?: object): Promise<HttpReply> {
    return this.post({ jsonrpc: "2.0", method, params });
  }

  /** Sends a request. @returns its parsed response, from the body or from the last event of a stream. */
  async request(method: string, params: unknown = {}, id: string | number = 2, call: HttpCall = {}): Promise<Reply> {
    const reply = await this.post({ jsonrpc: "2.0", id, method, params }, call);
    return { ...readResponse(reply), status: reply.status };
  }

  callTool(name: string, args: object = {}, id: string | number = 2, call: HttpCall = {}): Promise<Reply> {
    return this.request("tools/call", { name, arguments: args }, id, call);
  }

  async toolText(name: string, args: object = {}): Promise<string> {
    return resultText(await this.callTool(name, args));
  }

  begin(name: string, args: object = {}, id: string | number = 2, meta?: object): Promise<EventStream> {
    return this.postForStream(toolCall(name, args, id, meta));
  }

  answer({ id }: JsonRpcMessage, result: object = {}): Promise<HttpReply> {
    return this.post({ jsonrpc: "2.0", id, result });
  }

  end(): Promise<HttpReply> {
    return this.post("", { method: "DELETE" });
  }

  #ownHeaders(): Headers {
    const { token, sendsVersion = false, headers } = this.#options;
    return {
      ...(this.sessionId === "" ? {} : { "Mcp-Session-Id": this.sessionId }),
      ...(sendsVersion && this.sessionId !== "" ? { "MCP-Protocol-Version": this.protocolVersion } : {}),
      ...(token === undefined ? {} : { Authorization: `Bearer ${token}` }),
      ...headers,
    };
  }
}

function serialize(message: unknown): string | Buffer {
  return typeof message === "string" || Buffer.isBuffer(message) ? message : JSON.stringify(message);
}
