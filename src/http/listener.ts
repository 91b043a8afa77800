import { once } from "node:events";
import { createServer, type RequestListener, type Server, type ServerResponse } from "node:http";
import { type AddressInfo, Server as NetServer } from "node:net";
import type { Duplex } from "node:stream";
import { SidecarError, type SidecarErrorCode } from "../errors.ts";
import { errorBody } from "./error-response.ts";

/** Longer than clients keep idle connections, so that it is the client who closes and no request meets a closing socket. */
const KEEP_ALIVE_TIMEOUT_MS = 120_000;
/** How long the connection of a request that is not HTTP stays, for its client to read the answer. */
const LINGER_MS = 2000;

export interface ListenAddress {
  /** Undefined for all interfaces. */
  readonly host: string | undefined;
  readonly port: number;
}

/** The listening HTTP server. */
export class HttpListener {
  readonly #server: Server;
  /** Those whose last byte has not been handed to the operating system. */
  readonly #openResponses = new Set<ServerResponse>();
  #isClosing = false;
  #isClosingIdle = false;
  #onFlushed: (() => void) | undefined;

  constructor(app: RequestListener) {
    this.#server = createServer({ keepAliveTimeout: KEEP_ALIVE_TIMEOUT_MS, requireHostHeader: false }, (request, response) => {
      this.#openResponses.add(response);
      response.once("close", () => this.#onResponseClosed(response));
      app(request, response);
    });
    this.#server.on("clientError", (error: NodeJS.ErrnoException, socket) => this.#onClientError(error, socket));
  }

  /**
   * @returns the address as `host:port`.
   * @throws the system's error, for example EADDRINUSE.
   */
  async listen({ host, port }: ListenAddress): Promise<string> {
    this.#server.listen({ port, ...(host === undefined ? {} : { host }) });
    await once(this.#server, "listening");
    const { address, family, port: actualPort } = this.#server.address() as AddressInfo;
    return family === "IPv6" ? `[${address}]:${actualPort}` : `${address}:${actualPort}`;
  }

  /** Accepts no new connections and closes idle ones. @returns when all responses that had begun were handed to the operating system. */
  async stopAccepting(): Promise<void> {
    this.#isClosing = true;
    // Not http's own close: it takes a connection for idle while the end of an answer is still on its way out.
    NetServer.prototype.close.call(this.#server);
    this.#closeIdleConnections();
    if (this.#openResponses.size > 0) await new Promise<void>((resolve) => (this.#onFlushed = resolve));
  }

  /** Ends all connections. */
  close(): void {
    this.#server.closeAllConnections();
  }

  #onResponseClosed(response: ServerResponse): void {
    this.#openResponses.delete(response);
    if (!this.#isClosing) return;
    this.#closeIdleConnections();
    if (this.#openResponses.size === 0) this.#onFlushed?.();
  }

  /** Once for all that close in one turn: it looks at every connection. */
  #closeIdleConnections(): void {
    if (this.#isClosingIdle) return;
    this.#isClosingIdle = true;
    setImmediate(() => {
      this.#isClosingIdle = false;
      const isFlushing = this.#openResponses.values().some((response) => response.writableEnded && !response.writableFinished);
      if (!isFlushing) this.#server.closeIdleConnections();
    });
  }

  #onClientError(error: NodeJS.ErrnoException, socket: Duplex): void {
    // Behind a whole request that awaits its answer, this one would be read as that answer.
    const isAwaited = this.#openResponses.values().some((response) => response.socket === socket && response.req.complete);
    if (!socket.writable || error.code === "ECONNRESET" || isAwaited) {
      socket.destroy();
      return;
    }
    const [status, code, reason] = CLIENT_ERRORS[error.code ?? ""] ?? NOT_HTTP;
    const body = errorBody(new SidecarError(code, reason, { sent: false }), undefined);
    const headers = `Content-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\nConnection: close`;
    // A client that does not close its side either would keep the socket for ever.
    const timer = setTimeout(() => socket.destroy(), LINGER_MS);
    socket.once("close", () => clearTimeout(timer));
    socket.end(`HTTP/1.1 ${status}\r\n${headers}\r\n\r\n${body}`);
  }
}

type ClientError = readonly [status: string, code: SidecarErrorCode, reason: string];

const NOT_HTTP: ClientError = ["400 Bad Request", "INVALID_REQUEST", "The request is not valid HTTP."];

/** What Node's parser reports, by its error code. */
const CLIENT_ERRORS: Readonly<Record<string, ClientError>> = {
  HPE_HEADER_OVERFLOW: ["431 Request Header Fields Too Large", "INVALID_REQUEST", "The request headers are too large."],
  HPE_INVALID_EOF_STATE: ["400 Bad Request", "BODY_INCOMPLETE", "The request did not arrive completely."],
  ERR_HTTP_REQUEST_TIMEOUT: ["408 Request Timeout", "BODY_INCOMPLETE", "The request did not arrive in time."],
};
