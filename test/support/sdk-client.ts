import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { RecordedRequests } from "./recorded-requests.ts";

interface SdkClientOptions {
  readonly headers?: Readonly<Record<string, string>>;
}

/** The official client over Streamable HTTP, exactly as an application would use it. It only records its requests. */
export class SdkClient extends Client implements AsyncDisposable {
  readonly http: StreamableHTTPClientTransport;
  readonly requests = new RecordedRequests();
  readonly errors: Error[] = [];
  override readonly onerror = (error: Error): void => void this.errors.push(error);

  constructor(url: string, { headers = {} }: SdkClientOptions = {}) {
    super({ name: "interop", version: "1.0.0" });
    this.http = new StreamableHTTPClientTransport(new URL(url), {
      requestInit: { headers: { ...headers } },
      fetch: this.requests.fetch,
    });
  }

  static async connect(url: string, options?: SdkClientOptions): Promise<SdkClient> {
    const client = new SdkClient(url, options);
    await client.connect(client.http);
    return client;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}

/** Connects the official client with the server as its own child process, for comparison with the sidecar. */
export class DirectClient extends Client implements AsyncDisposable {
  constructor() {
    super({ name: "interop", version: "1.0.0" });
  }

  static async connect([file = "", ...args]: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<DirectClient> {
    const client = new DirectClient();
    await client.connect(new StdioClientTransport({ command: file, args, env: { ...env }, stderr: "ignore" }));
    return client;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}
