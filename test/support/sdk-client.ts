import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

type Texts = Readonly<Record<string, string>>;

/** The official client, exactly as an application would use it. */
export class SdkClient extends Client implements AsyncDisposable {
  static async connect(url: string, headers: Texts = {}): Promise<SdkClient> {
    const client = new SdkClient({ name: "interop", version: "1.0.0" });
    await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers: { ...headers } } }));
    return client;
  }

  /** Starts the server as the client's own child process, for comparison with the sidecar. */
  static async direct([command = "", ...args]: readonly string[], env: Texts = {}): Promise<SdkClient> {
    const client = new SdkClient({ name: "interop", version: "1.0.0" });
    await client.connect(new StdioClientTransport({ command, args, env: { ...env }, stderr: "ignore" }));
    return client;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}
