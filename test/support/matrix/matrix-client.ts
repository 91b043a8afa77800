import { EventStream } from "../event-stream.ts";
import type { StreamBlock } from "../event-stream-parser.ts";
import type { HttpCall } from "../http-client.ts";
import type { JsonRpcMessage } from "../json-rpc.ts";
import { initializeRequest, JSON_HEADERS } from "../mcp-client.ts";
import { ModernClient } from "../modern-client.ts";
import type { RunningSidecar } from "../running-sidecar.ts";
import type { Changes } from "../changes.ts";
import { MARKER } from "./scripted-server.ts";

/** `sse` is HTTP+SSE, and `batch` sends each request as an element of an array, together with a ping. */
export type ClientDialect = "2025" | "batch" | "sse" | "2026";

const REVISIONS = { "2025": "2025-11-25", batch: "2025-03-26", sse: "2024-11-05", "2026": "2026-07-28" } as const;
/** The id of the ping in a batch. */
const OTHER_ID = "other";
/** How the ids of requests that are not shown begin. */
export const HIDDEN_ID = "hidden";

/** One HTTP request of the client, and what has come back so far. */
export class Reply {
  readonly title: string;
  readonly id: string | number | undefined;
  readonly progressToken: unknown;
  /** The status, the form and the headers that matter. */
  head = "";
  messages: JsonRpcMessage[] = [];
  state: "waiting" | "open" | "ended" | "broken" | "closed by the client" = "waiting";
  sessionId: string | undefined;
  /** The URL that HTTP+SSE names first. */
  endpoint: string | undefined;
  lastEventId = "";
  readonly #abort = new AbortController();
  readonly #changes: Changes;

  constructor(title: string, url: string, call: HttpCall, message: JsonRpcMessage | undefined, changes: Changes) {
    this.title = title;
    this.id = message?.id;
    this.progressToken = (message?.params?.["_meta"] as { readonly progressToken?: unknown } | undefined)?.progressToken;
    this.#changes = changes;
    void this.#read(url, call);
  }

  get isOver(): boolean {
    return this.state !== "waiting" && this.state !== "open";
  }

  /** Closes the connection. */
  close(): void {
    if (this.isOver) return;
    this.state = "closed by the client";
    this.#abort.abort();
    this.#changes.notify();
  }

  async #read(url: string, call: HttpCall): Promise<void> {
    try {
      const stream = await EventStream.open(url, { ...call, signal: this.#abort.signal });
      this.#begin(stream);
      if (stream.isStream) for (let block = await stream.block(); block !== undefined; block = await stream.block()) this.#onBlock(block);
      else this.#add(await stream.body());
      this.#end("ended");
    } catch {
      this.#end("broken");
    }
  }

  #begin({ status, headers, isStream }: EventStream): void {
    this.sessionId = headers["mcp-session-id"] as string | undefined;
    const form = isStream ? ["stream"] : headers["content-type"] === "application/json" ? ["JSON"] : [];
    const named = ["retry-after", "mcp-session-id"].filter((name) => headers[name] !== undefined);
    const isBuffered = isStream && headers["x-accel-buffering"] !== "no";
    this.head = [String(status), ...form, ...named, ...(isBuffered ? ["buffered"] : [])].join(" ");
    if (this.state === "waiting") this.state = "open";
    this.#changes.notify();
  }

  #onBlock({ id, event, data }: StreamBlock): void {
    if (id !== undefined && this.lastEventId === "") this.head += " with ids";
    this.lastEventId = id ?? this.lastEventId;
    if (event === "endpoint") this.endpoint = data;
    else if (data !== undefined) this.#add(data);
    this.#changes.notify();
  }

  #add(text: string): void {
    if (text === "") return;
    const value = JSON.parse(text) as JsonRpcMessage | JsonRpcMessage[];
    if (Array.isArray(value)) this.head += " array";
    // The ping of a batch is there to make it one.
    this.messages.push(...[value].flat().filter(({ id }) => id !== OTHER_ID));
  }

  #end(state: "ended" | "broken"): void {
    if (!this.isOver) this.state = state;
    this.#changes.notify();
  }
}

export interface CallOptions {
  readonly meta?: Readonly<Record<string, unknown>>;
  readonly inputResponses?: object;
  readonly requestState?: unknown;
  /** Not shown, as its preparation is not. */
  readonly isHidden?: boolean;
}

/** A request of the client, with the place where its response comes. */
export class Call {
  readonly method: string;
  readonly params: Readonly<Record<string, unknown>>;
  readonly id: string | number;
  readonly post: Reply;
  /** The stream of HTTP+SSE, else the response to the POST. */
  readonly channel: Reply;
  readonly #from: number;

  constructor(method: string, params: Readonly<Record<string, unknown>>, id: string | number, post: Reply, channel?: Reply) {
    this.method = method;
    this.params = params;
    this.id = id;
    this.post = post;
    this.channel = channel ?? post;
    this.#from = channel?.messages.length ?? 0;
  }

  get messages(): readonly JsonRpcMessage[] {
    return this.channel.messages.slice(this.#from);
  }

  get response(): JsonRpcMessage | undefined {
    return this.messages.find(
      ({ id, method, error }) => method === undefined && (id === this.id || (id === undefined && error !== undefined)),
    );
  }

  /** True if nothing else can come. */
  get isDone(): boolean {
    const hasFailed = this.channel !== this.post && this.post.isOver && !this.post.head.startsWith("202");
    return this.channel.isOver || hasFailed || (this.channel !== this.post && this.response !== undefined);
  }
}

export class MatrixClient {
  readonly dialect: ClientDialect;
  /** What the client got since the last `forget`. */
  replies: Reply[] = [];
  /** The stream of HTTP+SSE, or of GET. */
  stream: Reply | undefined;
  readonly #capabilities: object;
  readonly #sidecar: RunningSidecar;
  readonly #changes: Changes;
  readonly #modern: ModernClient;
  #sessionId: string | undefined;
  #lastId = 0;

  constructor(dialect: ClientDialect, capabilities: object, sidecar: RunningSidecar, changes: Changes) {
    this.dialect = dialect;
    this.#capabilities = capabilities;
    this.#sidecar = sidecar;
    this.#changes = changes;
    this.#modern = new ModernClient(sidecar.url, { capabilities });
  }

  async open(): Promise<void> {
    if (this.dialect === "2026") {
      await this.done(this.call("server/discover"));
      return;
    }
    if (this.dialect === "sse") {
      const stream = this.openStream();
      await this.#changes.until(() => stream.endpoint ?? (stream.isOver ? "" : undefined), "the endpoint");
    }
    const message = { ...initializeRequest(this.#capabilities, REVISIONS[this.dialect]), id: ++this.#lastId } as unknown as JsonRpcMessage;
    const call = this.#begin(message, message);
    await this.done(call);
    this.#sessionId = call.post.sessionId;
    if (call.response?.error === undefined) await this.notify("notifications/initialized");
  }

  openStream(lastEventId = ""): Reply {
    const resumed = lastEventId === "" ? {} : { "Last-Event-ID": lastEventId };
    const headers = { Accept: "text/event-stream", ...this.#sessionHeaders(), ...resumed };
    const url = this.dialect === "sse" ? `${this.#sidecar.origin}/sse` : this.#sidecar.url;
    const stream = new Reply("GET", url, { method: "GET", headers }, undefined, this.#changes);
    this.replies.push(stream);
    if (lastEventId === "") this.stream = stream;
    return stream;
  }

  call(method: string, params: Readonly<Record<string, unknown>> = {}, { isHidden = false, ...options }: CallOptions = {}): Call {
    const number = ++this.#lastId;
    const id = isHidden ? `${HIDDEN_ID}-${number}` : number;
    if (this.dialect === "2026") {
      const composed = this.#modern.compose(method, params, { id, ...options });
      return this.#begin(JSON.parse(composed.body) as JsonRpcMessage, composed.body, composed.headers, isHidden);
    }
    const meta = options.meta === undefined ? {} : { _meta: options.meta };
    const message = { jsonrpc: "2.0", id, method, params: { ...params, ...meta } };
    const body = this.dialect === "batch" && !isHidden ? [message, { jsonrpc: "2.0", id: OTHER_ID, method: "ping" }] : message;
    return this.#begin(message, body, undefined, isHidden);
  }

  async notify(method: string, params: Readonly<Record<string, unknown>> = {}): Promise<void> {
    const composed = this.dialect === "2026" ? this.#modern.compose(method, params, { id: null }) : undefined;
    const message = { jsonrpc: "2.0", method, params };
    await this.#over(this.#post(method.replace("notifications/", ""), composed?.body ?? message, message, composed?.headers));
  }

  async answer({ id }: JsonRpcMessage, answer: object): Promise<void> {
    await this.#over(this.#post("answer", { jsonrpc: "2.0", id, ...answer }));
  }

  /** Resolves when all that was sent to the server before has arrived, and all that it has sent. */
  async marker(): Promise<void> {
    await this.done(this.call(MARKER, {}, { isHidden: true }));
    for (let turn = 0; turn < 3; turn++) await new Promise((resolve) => setImmediate(resolve));
  }

  async done(call: Call): Promise<void> {
    await this.#changes.until(() => (call.isDone ? true : undefined), `the response to ${call.method}`);
  }

  forget(): void {
    this.replies = [];
    if (this.stream === undefined) return;
    this.stream.messages = [];
    this.replies.push(this.stream);
  }

  close(): void {
    for (const reply of this.replies) reply.close();
  }

  #begin(message: JsonRpcMessage, body: unknown, headers?: HttpCall["headers"], isHidden = false): Call {
    const { id = "", method = "", params = {} } = message;
    const channel = this.dialect === "sse" ? this.stream : undefined;
    return new Call(method, params, id, this.#post(method, body, message, headers, isHidden), channel);
  }

  #post(title: string, body: unknown, message?: JsonRpcMessage, headers?: HttpCall["headers"], isHidden = false): Reply {
    const url = this.dialect === "sse" ? new URL(this.stream?.endpoint ?? "", this.#sidecar.origin).href : this.#sidecar.url;
    const call = {
      method: "POST",
      body: typeof body === "string" ? body : JSON.stringify(body),
      headers: headers ?? { ...JSON_HEADERS, ...this.#sessionHeaders() },
    };
    const reply = new Reply(title, url, call, message, this.#changes);
    if (!isHidden) this.replies.push(reply);
    return reply;
  }

  async #over(reply: Reply): Promise<void> {
    await this.#changes.until(() => (reply.isOver ? true : undefined), `the response to ${reply.title}`);
  }

  #sessionHeaders(): Readonly<Record<string, string>> {
    if (this.#sessionId === undefined || this.dialect === "2026") return {};
    return { "Mcp-Session-Id": this.#sessionId, "MCP-Protocol-Version": REVISIONS[this.dialect] };
  }
}
