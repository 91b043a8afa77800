import { Client as ClientV2, StreamableHTTPClientTransport as TransportV2 } from "@modelcontextprotocol/client";
import { Client as ClientV1 } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport as TransportV1 } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import {
  CreateMessageRequestSchema,
  ElicitRequestSchema,
  ListRootsRequestSchema,
  type LoggingLevel,
} from "@modelcontextprotocol/sdk/types.js";
import { Changes } from "./changes.ts";
import { ASKABLE } from "./mcp-client.ts";
import { RecordedRequests } from "./recorded-requests.ts";

/** The official clients: the first and the second generation of the SDK. The second is used with its default, `initialize`. */
export const SDKS = ["v1", "v2"] as const;
export type Sdk = (typeof SDKS)[number];

/** Both clients, each with a private server and with the shared one. */
export const CLIENTS = SDKS.flatMap((sdk) => [
  { sdk, lane: "private" as const },
  { sdk, lane: "shared" as const },
]);

const CLIENT_INFO = { name: "interop", version: "1.0.0" };

export interface InteropOptions {
  /** `private` by default: the client declares all capabilities for server requests. */
  readonly lane?: "private" | "shared";
  readonly answer?: Answer;
  /** The only protocol revision that the client supports. The first SDK generation does not have this choice. */
  readonly revision?: string;
  /** `legacy`, the default, begins with `initialize`. With `auto`, the second generation first tries the next era of the protocol. */
  readonly negotiation?: "legacy" | "auto";
  /** True to open broken streams again at once, and without end; the SDK gives up after two attempts in two and a half seconds. */
  readonly isPatient?: boolean;
}

const PATIENCE = { initialReconnectionDelay: 50, maxReconnectionDelay: 500, reconnectionDelayGrowFactor: 1.5, maxRetries: 1000 };

export interface CallOptions {
  readonly onprogress?: (event: { progress: number; total?: number | undefined }) => void;
  readonly signal?: AbortSignal;
}

export interface HeardNotification {
  readonly method: string;
  readonly params: Params;
}

interface ToolResult {
  readonly content: readonly { readonly type: string; readonly text?: string }[];
  readonly isError?: boolean | undefined;
}

/** One of the official clients over Streamable HTTP, exactly as an application would use it. */
export class InteropClient implements AsyncDisposable {
  readonly heard: HeardNotification[] = [];
  readonly errors: Error[] = [];
  readonly asked: Question[] = [];
  readonly requests = new RecordedRequests();
  readonly #client: ClientV1 | ClientV2;
  readonly #transport: TransportV1 | TransportV2;
  readonly #callTool: (name: string, args: Params, options: CallOptions) => Promise<unknown>;
  readonly #changes = new Changes();
  #isClosed = false;

  constructor(
    sdk: Sdk,
    url: string,
    { lane = "private", answer = refuse, revision, negotiation = "legacy", isPatient = false }: InteropOptions = {},
  ) {
    const capabilities = lane === "private" ? ASKABLE : {};
    const target = new URL(url);
    const transportOptions = {
      fetch: this.requests.fetch,
      ...(isPatient ? { reconnectionOptions: PATIENCE } : {}),
    };
    const note = (question: Question): object | Promise<object> => {
      this.asked.push(question);
      return answer(question);
    };
    if (sdk === "v1") {
      const client = new ClientV1(CLIENT_INFO, { capabilities });
      this.#client = client;
      this.#transport = new TransportV1(target, transportOptions);
      this.#callTool = (name, args, options) => client.callTool({ name, arguments: args }, undefined, options);
      if (lane === "private") answerWithV1(client, note);
    } else {
      const client = new ClientV2(CLIENT_INFO, {
        capabilities,
        versionNegotiation: { mode: negotiation },
        ...(revision === undefined ? {} : { supportedProtocolVersions: [revision] }),
      });
      this.#client = client;
      this.#transport = new TransportV2(target, transportOptions);
      this.#callTool = (name, args, options) => client.callTool({ name, arguments: args }, options);
      if (lane === "private") answerWithV2(client, note);
    }
    Object.assign(this.#client, {
      onerror: (error: Error) => void this.errors.push(error),
      fallbackNotificationHandler: (notification: HeardNotification) => this.#hear(notification),
    });
  }

  static async connect(sdk: Sdk, url: string, options?: InteropOptions): Promise<InteropClient> {
    const client = new InteropClient(sdk, url, options);
    await client.#connect();
    return client;
  }

  get sessionId(): string | undefined {
    return this.#transport.sessionId;
  }

  get protocolVersion(): string | undefined {
    return this.#transport.protocolVersion;
  }

  async tellRootsChanged(): Promise<void> {
    await this.#client.sendRootsListChanged();
  }

  async listTools() {
    return (await this.#client.listTools()).tools;
  }

  async subscribe(uri: string): Promise<void> {
    await this.#client.subscribeResource({ uri });
  }

  async unsubscribe(uri: string): Promise<void> {
    await this.#client.unsubscribeResource({ uri });
  }

  async setLevel(level: LoggingLevel): Promise<void> {
    await this.#client.setLoggingLevel(level);
  }

  async callTool(name: string, args: Params = {}, options: CallOptions = {}): Promise<ToolResult> {
    return (await this.#callTool(name, args, options)) as ToolResult;
  }

  async toolText(name: string, args: Params = {}, options: CallOptions = {}): Promise<string> {
    const result = await this.callTool(name, args, options);
    const text = result.content[0]?.text;
    if (text === undefined || result.isError === true) throw new Error(`${name}: ${JSON.stringify(result)}`);
    return text;
  }

  /** Waits for a notification, past or future, that the predicate accepts. */
  async waitToHear(method: string, accepts: (params: Params) => boolean = () => true): Promise<Params> {
    return (await this.#changes.until(() => this.heard.find((each) => each.method === method && accepts(each.params)), method)).params;
  }

  async terminate(): Promise<void> {
    await this.#transport.terminateSession();
  }

  /** Disconnects as applications do, without ending the session, so that it can be used again. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#client.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#isClosed) return;
    await this.terminate();
    await this.close();
  }

  #hear({ method, params = {} }: Partial<HeardNotification>): Promise<void> {
    this.heard.push({ method: String(method), params });
    this.#changes.notify();
    return Promise.resolve();
  }

  async #connect(): Promise<void> {
    await (this.#client as ClientV1).connect(this.#transport);
  }
}

function refuse({ method }: Question): never {
  throw new Error(`nobody is there to answer ${method}`);
}

export type Params = Readonly<Record<string, unknown>>;

export interface Question {
  readonly method: string;
  readonly params: Params;
  /** Aborted when the server cancels the request. */
  readonly signal: AbortSignal;
}

/** @returns the result. */
export type Answer = (question: Question) => object | Promise<object>;

function answerWithV1(client: ClientV1, answer: Answer): void {
  for (const schema of [CreateMessageRequestSchema, ElicitRequestSchema, ListRootsRequestSchema]) {
    client.setRequestHandler(schema as typeof CreateMessageRequestSchema, async ({ method, params }, { signal }) =>
      answer({ method, params: { ...params }, signal }),
    );
  }
}

function answerWithV2(client: ClientV2, answer: Answer): void {
  for (const each of ["sampling/createMessage", "elicitation/create", "roots/list"]) {
    client.setRequestHandler(
      each as "sampling/createMessage",
      async ({ method, params }, { mcpReq: { signal } }) => (await answer({ method, params: { ...params }, signal })) as never,
    );
  }
}
