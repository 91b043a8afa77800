import type { IncomingMessage, ServerResponse } from "node:http";
import { Socket } from "node:net";
import type { Duplex } from "node:stream";
import type { SidecarErrorCode } from "../errors.ts";
import type { RejectedRequest } from "../observability/request-observer.ts";
import { SidecarError } from "../errors.ts";
import { ALL_METHODS, allowHeader } from "../routes.ts";
import type { Connections } from "./connections.ts";
import { errorBody } from "./error-response.ts";
import { sendJson } from "./json-response.ts";
import { discardBody, LINGER_MS } from "./reject.ts";
import { noteRejection } from "./request-log/rejections.ts";

type ClientError = readonly [status: number, reasonPhrase: string, code: SidecarErrorCode, reason: string, header?: string];

const NOT_HTTP: ClientError = [400, "Bad Request", "INVALID_REQUEST", "The request is not valid HTTP."];
const NO_TUNNEL: ClientError = [
  405,
  "Method Not Allowed",
  "METHOD_NOT_ALLOWED",
  "CONNECT is not supported: the sidecar is not a proxy.",
  `Allow: ${allowHeader({ methods: ALL_METHODS })}\r\n`,
];
const TIMED_OUT = "ERR_HTTP_REQUEST_TIMEOUT";

/** Responses by the error code of Node's parser. */
const CLIENT_ERRORS: Readonly<Record<string, ClientError>> = {
  HPE_HEADER_OVERFLOW: [431, "Request Header Fields Too Large", "INVALID_REQUEST", "The request headers are too large."],
  HPE_INVALID_EOF_STATE: [400, "Bad Request", "BODY_INCOMPLETE", "The connection closed before the whole request arrived."],
  [TIMED_OUT]: [408, "Request Timeout", "BODY_INCOMPLETE", "The request did not arrive in time."],
};

/** Handles connections without a complete request: the data is not HTTP, or does not arrive in time. */
export class ClientErrors {
  readonly #connections: Connections;
  readonly #onRejected: (request: RejectedRequest) => void;
  /** The last request of each connection that was answered before it had arrived completely. */
  readonly #answeredEarly = new WeakMap<Socket, IncomingMessage>();
  /** Connections with a response that their clients have LINGER_MS to read. */
  readonly #lingering = new WeakSet<Duplex>();

  constructor(connections: Connections, onRejected: (request: RejectedRequest) => void) {
    this.#connections = connections;
    this.#onRejected = onRejected;
  }

  /** Must be called when a response is closed before its request has arrived completely. */
  onAnsweredEarly(request: IncomingMessage): void {
    this.#answeredEarly.set(request.socket, request);
  }

  onError(error: NodeJS.ErrnoException, socket: Socket): void {
    // Each further chunk of data causes another error, and is dropped.
    if (this.#connections.get(socket)?.isStopped) return;
    if (this.#lingering.has(socket)) return;
    if (!socket.writable || error.code === "ECONNRESET" || this.#answeredEarly.get(socket)?.complete === false) {
      socket.destroy();
      return;
    }
    const awaited = [...this.#connections.responsesOf(socket)].filter(({ req, headersSent }) => req.complete || headersSent);
    const last = awaited.at(-1);
    if (last !== undefined) {
      // The client would read a response sent now as that of its pending request. If only the next request is late, the pending response is
      // finished first.
      if (error.code === TIMED_OUT && last.req.complete) last.once("close", () => socket.destroySoon());
      else socket.destroy();
    } else if (error.code === TIMED_OUT && socket.bytesRead === 0) {
      // Clients open connections in advance, and would read a response as that of their first request.
      socket.destroy();
    } else {
      // The response says that the request was not sent, so a request that arrives after all must not be handled.
      if (error.code === TIMED_OUT) socket.pause();
      this.#answer(CLIENT_ERRORS[error.code ?? ""] ?? NOT_HTTP, socket);
    }
  }

  /** Must be called for CONNECT requests, for which Node passes the bare connection. */
  onConnect(socket: Duplex): void {
    socket.on("error", () => socket.destroy());
    if (this.#connections.responsesOf(socket as Socket).size > 0) socket.destroy();
    else this.#answer(NO_TUNNEL, socket.resume());
  }

  #answer([httpStatus, reasonPhrase, code, reason, header = ""]: ClientError, socket: Duplex): void {
    const principal = (socket instanceof Socket ? socket.remoteAddress : undefined) ?? "unknown";
    const body = errorBody(new SidecarError(code, reason), undefined);
    const headers = `${header}Content-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\nConnection: close`;
    this.#lingering.add(socket);
    // Otherwise, a client that does not close its side would keep the socket open forever.
    const timer = setTimeout(() => socket.destroy(), LINGER_MS);
    socket.once("close", () => clearTimeout(timer));
    socket.end(`HTTP/1.1 ${httpStatus} ${reasonPhrase}\r\n${headers}\r\n\r\n${body}`);
    this.#onRejected({ code, httpStatus, reason, sender: () => ({ principal, sessionId: undefined, requestBytes: undefined }) });
  }
}

/** Rejects a request with an unknown expectation (RFC 9110 §10.1.1). Node itself handles `100-continue`, the only defined one. */
export function rejectExpectation(request: IncomingMessage, response: ServerResponse): void {
  const error = new SidecarError("INVALID_REQUEST", "This Expect header is not supported; omit it.");
  noteRejection(response, error, error.message);
  sendJson(response, 417, errorBody(error, undefined));
  discardBody(request);
}
