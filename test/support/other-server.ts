import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

export interface Asked {
  readonly method: string;
  readonly headers: IncomingMessage["headers"];
  readonly message: { readonly id?: number; readonly method?: string; readonly params?: Readonly<Record<string, unknown>> };
}

/** A Streamable HTTP server that responds as the test defines. Use with `await using`. */
export class OtherServer implements AsyncDisposable {
  readonly asked: Asked[] = [];
  readonly #server;

  private constructor(answer: (asked: Asked, response: ServerResponse) => void) {
    this.#server = createServer((request, response) => {
      const chunks: Buffer[] = [];
      request.on("data", (chunk: Buffer) => chunks.push(chunk));
      request.on("end", () => {
        const text = Buffer.concat(chunks).toString();
        const asked = { method: request.method ?? "", headers: request.headers, message: text === "" ? {} : (JSON.parse(text) as object) };
        this.asked.push(asked);
        answer(asked, response);
      });
    });
  }

  static async start(answer: (asked: Asked, response: ServerResponse) => void): Promise<OtherServer> {
    const server = new OtherServer(answer);
    server.#server.listen(0, "127.0.0.1");
    await once(server.#server, "listening");
    return server;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/other`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.close();
    this.#server.closeAllConnections();
    await once(this.#server, "close");
  }
}
