import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { gzipSync } from "node:zlib";

const HUNDRED_MIB_COMPRESSED = (): Buffer => gzipSync(Buffer.alloc(100 * 1024 * 1024, "a"));

/** A web server with pages that misbehave. */
export class WebServer implements AsyncDisposable {
  /** Emits `request` with the path of each request, and `close` when its connection ends. */
  readonly server: Server;
  readonly seen: { readonly method: string; readonly path: string; readonly headers: IncomingMessage["headers"]; readonly body: string }[] =
    [];

  private constructor(server: Server) {
    this.server = server;
  }

  static async start(): Promise<WebServer> {
    const server = createServer();
    const web = new WebServer(server);
    server.on("request", (request: IncomingMessage, response: ServerResponse) => void web.#answer(request, response));
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    return web;
  }

  get port(): number {
    return (this.server.address() as AddressInfo).port;
  }

  url(path: string, host = "127.0.0.1"): string {
    return `http://${host}:${this.port}${path}`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const closed = once(this.server, "close");
    this.server.close();
    this.server.closeAllConnections();
    await closed;
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { url: path = "", method = "", headers } = request;
    this.seen.push({ method, path, headers, body: await text(request) });
    const [, page = "", detail = "", status = "302"] = (path.split("?")[0] ?? "").split("/");
    const send = (body: string | Buffer, type = "text/plain"): void => void response.setHeader("Content-Type", type).end(body);
    const pages: Readonly<Record<string, () => void>> = {
      hello: () => send("hello"),
      status: () => {
        response.statusCode = Number(detail);
        send(`status ${detail}`);
      },
      large: () => send("x".repeat(Number(detail))),
      bomb: () => {
        response.setHeader("Content-Encoding", "gzip");
        send(HUNDRED_MIB_COMPRESSED());
      },
      picture: () => send(Buffer.from([0x89, 0x50, 0, 0xff]), "image/png"),
      latin: () => send(Buffer.from([0x63, 0x61, 0x66, 0xe9]), "text/plain; charset=iso-8859-1"),
      cookies: () => {
        response.setHeader("Set-Cookie", ["a=1", "b=2"]);
        send("");
      },
      redirect: () => void response.writeHead(Number(status), { Location: decodeURIComponent(detail) }).end(),
      see_other: () => void response.writeHead(303, { Location: "/hello" }).end(),
      loop: () => void response.writeHead(302, { Location: "/loop" }).end(),
      long_header: () => void response.setHeader("X-Long", "x".repeat(100_000)).end(),
      endless: () => {
        const write = (): void => {
          while (response.write("x".repeat(100_000)));
        };
        write();
        response.on("drain", write);
      },
      tiny: () => void response.write("a", () => request.socket.end("1\r\na\r\n".repeat(20_000))),
      // Neither ends its response.
      silent: () => {},
      stalled: () => void response.write("the beginning"),
      invalid_status: () => void request.socket.end("HTTP/1.1 099 Odd\r\nContent-Length: 0\r\n\r\n"),
      cut: () => void response.writeHead(200, { "Content-Length": "100" }).write("half", () => request.socket.destroy()),
    };
    pages[page]?.();
  }
}
