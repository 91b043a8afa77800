import { once } from "node:events";
import { createServer, type IncomingMessage, type RequestListener, type Server, type ServerResponse } from "node:http";
import { type AddressInfo, Server as NetServer, type Socket } from "node:net";
import type { Duplex } from "node:stream";
import { setTimeout as delay } from "node:timers/promises";
import type { ListenAddress } from "./guards/authority.ts";
import type { Counters } from "../observability/counters.ts";
import type { Defects } from "../observability/defects.ts";
import type { Log } from "../observability/log.ts";
import type { RequestObserver } from "../observability/request-observer.ts";
import { ClientErrors, rejectExpectation } from "./client-errors.ts";
import { SidecarError } from "../errors.ts";
import { type Connection, type ConnectionLimits, Connections } from "./connections.ts";
import { stopParser } from "./node-parser.ts";
import { sendDefect } from "./json-response.ts";
import { CutOffLog } from "./output/cut-off-log.ts";
import { StalledReaders } from "./output/stalled-readers.ts";
import { reject } from "./reject.ts";
import { rejectionOf } from "./request-log/rejections.ts";
import { ROUTES } from "../routes.ts";
import type { Identify } from "./route.ts";
import type { Principal } from "../sessions/principal.ts";

/** The client closes its idle connection this much earlier: it is told CONNECTION_IDLE_TIMEOUT_MS, and may be late when the machine is busy. */
const MAX_IDLE_BUFFER_MS = 10_000;
/** The maximum number of requests of a connection that are not answered, or that are read at once. Some clients send a few ahead. */
const MAX_REQUESTS_AHEAD = 16;
/** The paths of probes, which must be answered however many clients are connected. */
const PROBE_PATHS: ReadonlySet<string> = new Set([ROUTES.live.path, ROUTES.ready.path, ROUTES.health.path]);
/** Interval of the check for requests that did not arrive in time. */
const ARRIVAL_CHECK_MS = 500;
/**
 * Time for which connections are still accepted after the drain. Closing the listening socket resets the connections in its backlog, with
 * the requests that their clients have sent.
 */
const LAST_ARRIVALS_MS = 100;
/** The maximum number of connections that wait to be accepted: Node's default for `listen`. */
const BACKLOG = 511;

interface ListenerLimits extends ConnectionLimits {
  readonly connectionIdleTimeoutMs: number;
  readonly headersTimeoutMs: number;
  /** Time limit for a whole request, its headers included. */
  readonly bodyTimeoutMs: number;
  readonly readerTimeoutMs: number;
}

export interface ListenerOptions {
  readonly limits: ListenerLimits;
  /** Undefined if nothing observes requests. */
  readonly observer: RequestObserver | undefined;
  /** Undefined if no token is configured. */
  readonly identify: Identify | undefined;
  readonly counters: Counters;
  readonly defects: Defects;
  readonly log: Log;
  readonly nowMs: () => number;
}

/** The listening HTTP server. */
export class HttpListener {
  readonly #server: Server;
  readonly #observer: RequestObserver | undefined;
  readonly #identify: Identify | undefined;
  readonly #counters: Counters;
  readonly #defects: Defects;
  readonly #clientErrors: ClientErrors;
  readonly #stalledReaders: StalledReaders;
  readonly #connections: Connections;
  /** Responses whose last byte has not been passed to the operating system. */
  #openResponses = 0;
  #isDraining = false;
  #isClosing = false;
  #isClosingIdle = false;
  #onFlushed: (() => void) | undefined;

  constructor(app: RequestListener, options: ListenerOptions) {
    const { limits, observer, identify, counters, defects, log, nowMs } = options;
    const { headersTimeoutMs, bodyTimeoutMs, readerTimeoutMs, connectionIdleTimeoutMs } = limits;
    [this.#observer, this.#identify, this.#counters, this.#defects] = [observer, identify, counters, defects];
    this.#connections = new Connections(limits, identify !== undefined, counters, log, nowMs);
    this.#clientErrors = new ClientErrors(this.#connections, (request) => {
      counters.countStatus(request.httpStatus);
      observer?.rejected(request);
    });
    const cutOffs = new CutOffLog(counters, log, nowMs);
    const stalledReaders = (this.#stalledReaders = new StalledReaders(this.#connections, {
      timeoutMs: readerTimeoutMs,
      defects,
      nowMs,
      onCut: (unreadLength) => cutOffs.add(unreadLength, "nothing was read in time"),
    }));
    const onRequest = (request: IncomingMessage, response: ServerResponse): void => {
      try {
        if (this.#admit(request, response)) app(request, response);
      } catch (error) {
        defects.recover("http request", error, () => sendDefect(response, false));
      }
    };
    this.#server = createServer(
      {
        keepAliveTimeout: connectionIdleTimeoutMs,
        keepAliveTimeoutBuffer: Math.min(MAX_IDLE_BUFFER_MS, connectionIdleTimeoutMs),
        // Node requires a limit for headers that is not above that of the request.
        headersTimeout: Math.min(headersTimeoutMs, bodyTimeoutMs),
        requestTimeout: bodyTimeoutMs,
        connectionsCheckingInterval: ARRIVAL_CHECK_MS,
        requireHostHeader: false,
      },
      onRequest,
    );
    const guard = (socket: Duplex, handle: () => void): void => defects.guard("http connection", handle, () => socket.destroy());
    this.#server.on("connection", (socket: Socket) => guard(socket, () => this.#connections.add(socket)));
    this.#server.on("clientError", (error: NodeJS.ErrnoException, socket: Socket) =>
      guard(socket, () => this.#clientErrors.onError(error, socket)),
    );
    // By default, Node closes the connection of CONNECT without a response, and sends 417 without a body.
    this.#server.on("connect", (_request: IncomingMessage, socket: Duplex) => guard(socket, () => this.#clientErrors.onConnect(socket)));
    this.#server.on("checkExpectation", (request: IncomingMessage, response: ServerResponse) =>
      guard(request.socket, () => {
        if (this.#admit(request, response)) rejectExpectation(request, response);
      }),
    );
    this.#server.on("timeout", (socket: Socket) =>
      guard(socket, () => {
        if (this.#connections.responsesOf(socket).size === 0) socket.destroy();
        else stalledReaders.onTimeout(socket);
      }),
    );
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

  /** Must be called when the token of a principal was removed. */
  onRevoked(principal: Principal): void {
    this.#connections.onRevoked(principal);
  }

  /** Makes each response the last of its connection. New connections are still accepted. */
  closeAfterResponses(): void {
    this.#isDraining = true;
    for (const { responses } of this.#connections.values()) {
      const last = [...responses].at(-1);
      if (last !== undefined) last.shouldKeepAlive = false;
    }
  }

  /**
   * Accepts the connections that clients have already opened, then stops accepting, and closes idle connections.
   *
   * @returns a promise that resolves when all open responses were passed to the operating system.
   */
  async stopAccepting(): Promise<void> {
    await delay(LAST_ARRIVALS_MS);
    await this.#acceptWaiting();
    this.#isClosing = true;
    // The close of `http.Server` also closes connections on which the end of a response is still being written.
    NetServer.prototype.close.call(this.#server);
    this.#closeIdleConnections();
    if (this.#openResponses > 0) await new Promise<void>((resolve) => (this.#onFlushed = resolve));
  }

  /** Runs the event loop until a turn accepts no connection. It accepts one per turn, and the timer is late in a busy process. */
  async #acceptWaiting(): Promise<void> {
    let hasAccepted = true;
    const onConnection = (): void => void (hasAccepted = true);
    this.#server.on("connection", onConnection);
    for (let left = BACKLOG; hasAccepted && left > 0; left--) {
      hasAccepted = false;
      // The second callback runs after a whole turn.
      await new Promise<void>((resolve) => setImmediate(() => setImmediate(resolve)));
    }
    this.#server.off("connection", onConnection);
  }

  /** Stops listening, and closes all connections. */
  close(): void {
    this.#stalledReaders.close();
    NetServer.prototype.close.call(this.#server);
    this.#server.closeAllConnections();
  }

  /** Returns true if the request is to be handled. The one above a limit is rejected, and those behind it are dropped. */
  #admit(request: IncomingMessage, response: ServerResponse): boolean {
    const { socket } = request;
    const connection = this.#connections.get(socket);
    if (connection === undefined || connection.isStopped) return false;
    this.#track(response, socket, connection);
    const refusal = this.#refusal(request, connection);
    if (refusal === undefined) return true;
    connection.isStopped = true;
    stopParser(socket);
    reject(request, response, refusal, { Connection: "close" });
    return false;
  }

  #refusal(request: IncomingMessage, connection: Connection): SidecarError | undefined {
    const { socket } = request;
    if (connection.isNew && !this.#admitClient(request, connection)) {
      const message = "All connections that CLAW_MCP_STDIO_MAX_CONNECTIONS permits are in use. The request was not sent to the MCP server.";
      return new SidecarError("OVERLOADED", message, { retryAfterSeconds: 1 });
    }
    // Requests with a body may be answered one by one, though they were read at once.
    const { bytesRead } = socket;
    connection.requestsOfRead = bytesRead === connection.bytesRead ? connection.requestsOfRead + 1 : 1;
    connection.bytesRead = bytesRead;
    if (connection.responses.size <= MAX_REQUESTS_AHEAD && connection.requestsOfRead <= MAX_REQUESTS_AHEAD) return undefined;
    const message = `More than ${MAX_REQUESTS_AHEAD} requests were sent ahead on this connection.`;
    return new SidecarError("SESSION_OVERLOADED", message, { retryAfterSeconds: 1 });
  }

  /**
   * Admits a new connection if its request is a client's: no probe, and with a valid token if one is configured.
   *
   * @returns false if there is no place for it.
   */
  #admitClient({ url = "", socket, headers: { authorization } }: IncomingMessage, connection: Connection): boolean {
    if (PROBE_PATHS.has(url)) return true;
    if (this.#identify === undefined) return this.#connections.admit(socket, connection, undefined);
    const principal = authorization === undefined ? undefined : this.#identify(authorization);
    return principal === undefined || this.#connections.admit(socket, connection, principal);
  }

  #track(response: ServerResponse, socket: Socket, connection: Connection): void {
    this.#openResponses++;
    this.#connections.onRequest(socket, connection, response);
    response.on("close", () => this.#onResponseClosed(response, socket, connection));
    if (!this.#isDraining) return;
    // After a response with `Connection: close`, Node drops all later requests.
    for (const each of connection.responses) each.shouldKeepAlive = each !== response;
  }

  #onResponseClosed(response: ServerResponse, socket: Socket, connection: Connection): void {
    if (!this.#connections.onResponseClosed(socket, connection, response)) return;
    this.#openResponses--;
    try {
      if (response.headersSent) this.#counters.countStatus(response.statusCode);
      if (response.statusCode >= 400) this.#observeRejection(response);
      if (!response.req.complete) this.#clientErrors.onAnsweredEarly(response.req);
    } catch (error) {
      this.#defects.recover("client disconnect", error);
    }
    if (!this.#isClosing) return;
    this.#closeIdleConnections();
    if (this.#openResponses === 0) this.#onFlushed?.();
  }

  #observeRejection(response: ServerResponse): void {
    const rejected = this.#observer === undefined ? undefined : rejectionOf(response, this.#identify);
    if (rejected !== undefined) this.#observer?.rejected(rejected);
  }

  /** Runs once for all responses that close in one turn, because it checks every connection. */
  #closeIdleConnections(): void {
    if (this.#isClosingIdle) return;
    this.#isClosingIdle = true;
    setImmediate(() => {
      this.#isClosingIdle = false;
      this.#defects.guard("http connection", () => {
        const isFlushing = this.#connections
          .values()
          .some(({ responses }) => responses.values().some(({ writableEnded, writableFinished }) => writableEnded && !writableFinished));
        if (!isFlushing) this.#server.closeIdleConnections();
      });
    });
  }
}
