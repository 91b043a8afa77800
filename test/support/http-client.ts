import { type IncomingHttpHeaders, request as httpRequest, type RequestOptions } from "node:http";
import { parseEventStream } from "./event-stream-parser.ts";

export interface HttpReply {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

export interface HttpCall {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Buffer;
  readonly signal?: AbortSignal;
  readonly agent?: RequestOptions["agent"];
}

/** One HTTP exchange as it is: nothing added but what is given, nothing hidden. */
export function send(url: string, { method = "POST", headers = {}, body, signal, agent }: HttpCall = {}): Promise<HttpReply> {
  return new Promise((resolve, reject) => {
    const options: RequestOptions = { method, headers };
    if (signal !== undefined) options.signal = signal;
    if (agent !== undefined) options.agent = agent;
    const request = httpRequest(url, options, (response) => {
      const chunks: Buffer[] = [];
      response.on("data", (chunk: Buffer) => chunks.push(chunk));
      response.on("end", () =>
        resolve({ status: response.statusCode ?? 0, headers: response.headers, body: Buffer.concat(chunks).toString() }),
      );
      response.on("error", reject);
    });
    request.on("error", reject);
    request.end(body);
  });
}

/** The messages of an answer: all events of a stream, in order, or the one body. */
export function readMessages({ headers, body }: HttpReply): string[] {
  if (headers["content-type"] !== "text/event-stream") return [body];
  return parseEventStream(body).flatMap(({ data = "" }) => (data === "" ? [] : [data]));
}

export const JSON_HEADERS = { "Content-Type": "application/json", Accept: "application/json, text/event-stream" };

export interface JsonRpcReply {
  readonly jsonrpc: string;
  readonly id?: string | number;
  readonly result?: { readonly [key: string]: unknown; readonly content?: readonly { readonly text: string }[] };
  readonly error?: { readonly code: number; readonly message: string; readonly data?: Readonly<Record<string, unknown>> };
}

/** The response of a request, from the one body or the last event: an answer that takes STREAM_AFTER_MS comes in a stream. */
export function readResponse(reply: HttpReply): JsonRpcReply {
  return JSON.parse(readMessages(reply).at(-1) ?? "") as JsonRpcReply;
}

/** A client of the endpoint in the raw: it chooses its own ids and headers, and may send anything. */
export class RawClient {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  sessionId = "";
  /** As it was negotiated. */
  protocolVersion = "";

  constructor(url: string, headers: Readonly<Record<string, string>> = {}) {
    this.url = url;
    this.headers = headers;
  }

  /** initialize and notifications/initialized. */
  async open(protocolVersion = "2025-11-25"): Promise<this> {
    const params = { protocolVersion, capabilities: {}, clientInfo: { name: "raw", version: "1" } };
    const reply = await this.post({ jsonrpc: "2.0", id: 1, method: "initialize", params });
    if (reply.status !== 200) throw new Error(`initialize: ${reply.status} ${reply.body}`);
    this.sessionId = String(reply.headers["mcp-session-id"]);
    this.protocolVersion = (JSON.parse(reply.body) as { result: { protocolVersion: string } }).result.protocolVersion;
    await this.post({ jsonrpc: "2.0", method: "notifications/initialized" });
    return this;
  }

  /** Any body: an object is serialised, a text goes out as it is. */
  post(message: unknown, call: HttpCall = {}): Promise<HttpReply> {
    const session: Record<string, string> = this.sessionId === "" ? {} : { "Mcp-Session-Id": this.sessionId };
    const body = typeof message === "string" || Buffer.isBuffer(message) ? message : JSON.stringify(message);
    return send(this.url, { ...call, body, headers: { ...JSON_HEADERS, ...session, ...this.headers, ...call.headers } });
  }

  /** A request; its response parsed, from the body or the last event of a stream. */
  async request(
    method: string,
    params: unknown = {},
    id: string | number = 2,
    call: HttpCall = {},
  ): Promise<JsonRpcReply & { status: number }> {
    const reply = await this.post({ jsonrpc: "2.0", id, method, params }, call);
    return { ...readResponse(reply), status: reply.status };
  }

  callTool(name: string, args: object = {}, id: string | number = 2, call: HttpCall = {}): Promise<JsonRpcReply & { status: number }> {
    return this.request("tools/call", { name, arguments: args }, id, call);
  }

  /** The text of a tool's result. */
  async toolText(name: string, args: object = {}): Promise<string> {
    const reply = await this.callTool(name, args);
    const text = reply.result?.content?.[0]?.text;
    if (text === undefined) throw new Error(`${name}: ${JSON.stringify(reply)}`);
    return text;
  }
}
