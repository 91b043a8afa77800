import { createServer, type Server, type ServerResponse } from "node:http";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { json } from "node:stream/consumers";

/** An MCP server with sessions that answers calls in a way of its own. */
export class HostileServer implements AsyncDisposable {
  readonly url: string;
  /** Resolves when the server has got a request that it does not answer. */
  readonly lost: Promise<void>;
  /** Resolves when the response to a call is closed by the client. */
  readonly closed: Promise<void>;
  readonly #server: Server;

  private constructor(server: Server, closed: Promise<void>, lost: Promise<void>) {
    [this.#server, this.closed, this.lost] = [server, closed, lost];
    this.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  }

  /** @param isLost true for a request that is not answered. */
  static async start(
    answer: (response: ServerResponse, id: unknown) => void,
    isLost: (response: ServerResponse) => boolean = () => false,
  ): Promise<HostileServer> {
    const { promise: closed, resolve } = Promise.withResolvers<void>();
    const { promise: lost, resolve: lose } = Promise.withResolvers<void>();
    const server = createServer((request, response) => {
      if (isLost(response)) return lose();
      void json(request).then((body) => {
        const { id, method } = body as { readonly id?: unknown; readonly method?: string };
        if (method === "initialize") {
          const result = { protocolVersion: "2025-11-25", capabilities: { tools: {} }, serverInfo: { name: "hostile", version: "1" } };
          response.setHeader("Content-Type", "application/json").end(JSON.stringify({ jsonrpc: "2.0", id, result }));
        } else if (method === "tools/call") {
          response.once("close", resolve);
          answer(response, id);
        } else if (id !== undefined && method !== undefined) {
          const error = { code: -32601, message: "no such method" };
          response.setHeader("Content-Type", "application/json").end(JSON.stringify({ jsonrpc: "2.0", id, error }));
        } else response.writeHead(202).end();
      });
    });
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    return new HostileServer(server, closed, lost);
  }

  /** Answers a call with a text. */
  static say(response: ServerResponse, id: unknown, text: string): void {
    const result = { content: [{ type: "text", text }] };
    response.setHeader("Content-Type", "application/json").end(JSON.stringify({ jsonrpc: "2.0", id, result }));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const ended = once(this.#server, "close");
    this.#server.close();
    this.#server.closeAllConnections();
    await ended;
  }
}
