import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import { SidecarError, type SidecarErrorCode } from "../errors.ts";
import { errorBody } from "./error-response.ts";
import { sendJson } from "./json-response.ts";
import { discardBody } from "./refuse.ts";

/** How long the connection of a request that is not HTTP stays, for its client to read the answer. */
const LINGER_MS = 2000;

type ClientError = readonly [status: number, reasonPhrase: string, code: SidecarErrorCode, reason: string];

const NOT_HTTP: ClientError = [400, "Bad Request", "INVALID_REQUEST", "The request is not valid HTTP."];
const NO_TUNNEL: ClientError = [405, "Method Not Allowed", "METHOD_NOT_ALLOWED", "CONNECT is not supported: the sidecar is not a proxy."];
const TIMED_OUT = "ERR_HTTP_REQUEST_TIMEOUT";

/** What Node's parser reports, by its error code. */
const CLIENT_ERRORS: Readonly<Record<string, ClientError>> = {
  HPE_HEADER_OVERFLOW: [431, "Request Header Fields Too Large", "INVALID_REQUEST", "The request headers are too large."],
  HPE_INVALID_EOF_STATE: [400, "Bad Request", "BODY_INCOMPLETE", "The connection closed before the whole request arrived."],
  [TIMED_OUT]: [408, "Request Timeout", "BODY_INCOMPLETE", "The request did not arrive in time."],
};

/** What becomes of connections on which no whole request arrives: what comes is not HTTP, or does not come in time. */
export class ClientErrors {
  readonly #responses: ReadonlySet<ServerResponse>;
  readonly #countStatus: (httpStatus: number) => void;
  /** The last request of a connection that was answered before all of it had arrived. */
  readonly #answeredEarly = new WeakMap<Socket, IncomingMessage>();
  /** Those that were told what is wrong, and are given time to read it. */
  readonly #lingering = new WeakSet<Duplex>();

  /** @param responses all that are open. */
  constructor(responses: ReadonlySet<ServerResponse>, countStatus: (httpStatus: number) => void) {
    this.#responses = responses;
    this.#countStatus = countStatus;
  }

  /** To be called when a response is closed whose request has not arrived completely. */
  onAnsweredEarly(request: IncomingMessage): void {
    this.#answeredEarly.set(request.socket, request);
  }

  onError(error: NodeJS.ErrnoException, socket: Socket): void {
    // Each further piece of what is no HTTP is an error again.
    if (this.#lingering.has(socket)) return;
    if (!socket.writable || error.code === "ECONNRESET" || this.#answeredEarly.get(socket)?.complete === false) {
      socket.destroy();
      return;
    }
    const responses = this.#responses.values().filter(({ req }) => req.socket === socket);
    const awaited = responses.filter(({ req, headersSent }) => req.complete || headersSent).toArray();
    const last = awaited.at(-1);
    if (last !== undefined) {
      // What were sent now would be read as its answer. The one that is late is not worth an answer that is on its way.
      if (error.code === TIMED_OUT && last.req.complete) last.once("close", () => socket.destroySoon());
      else socket.destroy();
    } else if (error.code === TIMED_OUT && socket.bytesRead === 0) {
      // Clients open connections in advance, and would take an answer for that of their first request.
      socket.destroy();
    } else {
      // A request that comes in after all shall not be carried: its client is told that it was not.
      if (error.code === TIMED_OUT) socket.pause();
      this.#answer(CLIENT_ERRORS[error.code ?? ""] ?? NOT_HTTP, socket);
    }
  }

  /** To be called for CONNECT, whose connection Node hands over. */
  onConnect(socket: Duplex): void {
    socket.on("error", () => socket.destroy());
    const isAwaited = this.#responses.values().some(({ req }) => req.socket === socket);
    if (isAwaited) socket.destroy();
    else this.#answer(NO_TUNNEL, socket.resume());
  }

  #answer([status, reasonPhrase, code, reason]: ClientError, socket: Duplex): void {
    const body = errorBody(new SidecarError(code, reason), undefined);
    const headers = `Content-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\nConnection: close`;
    this.#lingering.add(socket);
    // A client that does not close its side either would keep the socket for ever.
    const timer = setTimeout(() => socket.destroy(), LINGER_MS);
    socket.once("close", () => clearTimeout(timer));
    socket.end(`HTTP/1.1 ${status} ${reasonPhrase}\r\n${headers}\r\n\r\n${body}`);
    this.#countStatus(status);
  }
}

/** RFC 9110 §10.1.1: Node itself sees to the only expectation that there is, `100-continue`. */
export function refuseExpectation(request: IncomingMessage, response: ServerResponse): void {
  const error = new SidecarError("INVALID_REQUEST", "This Expect header is not supported; leave it out.");
  sendJson(response, 417, errorBody(error, undefined));
  discardBody(request);
}
