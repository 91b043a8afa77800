import { once } from "node:events";
import { createServer, type IncomingMessage, type RequestListener, type Server, type ServerResponse } from "node:http";
import { type AddressInfo, Server as NetServer, type Socket } from "node:net";
import type { Duplex } from "node:stream";
import { setTimeout as delay } from "node:timers/promises";
import type { ListenAddress } from "../authority.ts";
import type { Counters } from "../counters.ts";
import type { Defects } from "../defects.ts";
import type { Log } from "../observability/log.ts";
import { LogLimiter } from "../observability/log-limiter.ts";
import { ClientErrors, refuseExpectation } from "./client-errors.ts";
import { sendDefect } from "./json-response.ts";
import { StalledReaders } from "./stalled-readers.ts";

/** Longer than clients keep idle connections, so that it is the client who closes and no request meets a closing socket. */
const KEEP_ALIVE_TIMEOUT_MS = 120_000;
/** By how much later than its time a request may be found that does not arrive. */
const ARRIVAL_CHECK_MS = 500;
/**
 * How long connections are still accepted after the end has been announced: closing the socket resets those that wait to be accepted, with
 * the requests that their clients have sent.
 */
const LAST_ARRIVALS_MS = 100;
/** So many connections can wait to be accepted: the backlog of `listen`, which is Node's default. */
const BACKLOG = 511;

export interface ListenerOptions {
  readonly headersTimeoutMs: number;
  /** For all of a request, its headers included. */
  readonly bodyTimeoutMs: number;
  readonly readerTimeoutMs: number;
  readonly counters: Counters;
  readonly defects: Defects;
  readonly log: Log;
  readonly nowMs: () => number;
}

/** The listening HTTP server. */
export class HttpListener {
  readonly #server: Server;
  readonly #counters: Counters;
  readonly #defects: Defects;
  readonly #clientErrors: ClientErrors;
  /** Those whose last byte has not been handed to the operating system. */
  readonly #openResponses = new Set<ServerResponse>();
  #isDraining = false;
  #isClosing = false;
  #isClosingIdle = false;
  #onFlushed: (() => void) | undefined;

  constructor(app: RequestListener, options: ListenerOptions) {
    const { headersTimeoutMs, bodyTimeoutMs, readerTimeoutMs, counters, defects, log, nowMs } = options;
    this.#counters = counters;
    this.#defects = defects;
    this.#clientErrors = new ClientErrors(this.#openResponses, (httpStatus) => counters.countStatus(httpStatus));
    const logLimiter = new LogLimiter(nowMs);
    const stalledReaders = new StalledReaders(this.#openResponses, {
      timeoutMs: readerTimeoutMs,
      defects,
      nowMs,
      onCut: (bytes) => {
        counters.http.readersCutOff++;
        if (logLimiter.allows()) log.warn({ bytes, reason: "nothing was read in time" }, "connection cut off");
      },
    });
    const onRequest = (request: IncomingMessage, response: ServerResponse): void => {
      try {
        this.#track(response);
        app(request, response);
      } catch (error) {
        defects.recover("http request", error, () => sendDefect(response, false));
      }
    };
    this.#server = createServer(
      {
        keepAliveTimeout: KEEP_ALIVE_TIMEOUT_MS,
        // A part may not take longer than all of it.
        headersTimeout: Math.min(headersTimeoutMs, bodyTimeoutMs),
        requestTimeout: bodyTimeoutMs,
        connectionsCheckingInterval: ARRIVAL_CHECK_MS,
        requireHostHeader: false,
      },
      onRequest,
    );
    const guard = (socket: Duplex, handle: () => void): void => defects.guard("http connection", handle, () => socket.destroy());
    this.#server.on("clientError", (error: NodeJS.ErrnoException, socket: Socket) =>
      guard(socket, () => this.#clientErrors.onError(error, socket)),
    );
    // Node would close the one without a word, and answer the other without a body.
    this.#server.on("connect", (_request: IncomingMessage, socket: Duplex) => guard(socket, () => this.#clientErrors.onConnect(socket)));
    this.#server.on("checkExpectation", (request: IncomingMessage, response: ServerResponse) =>
      guard(request.socket, () => {
        this.#track(response);
        refuseExpectation(request, response);
      }),
    );
    this.#server.on("timeout", (socket: Socket) =>
      guard(socket, () => {
        const isIdle = !this.#openResponses.values().some((response) => response.socket === socket);
        if (isIdle) socket.destroy();
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

  /** From now on each answer is the last of its connection. New connections are still taken: whoever comes shall be told. */
  beginDrain(): void {
    this.#isDraining = true;
    const last = new Map(this.#openResponses.values().map((response) => [response.req.socket, response]));
    for (const response of last.values()) response.shouldKeepAlive = false;
  }

  /**
   * Accepts no new connections, once those are in that clients have made before they could know, and closes idle ones.
   *
   * @returns when all responses that had begun were handed to the operating system.
   */
  async stopAccepting(): Promise<void> {
    await delay(LAST_ARRIVALS_MS);
    await this.#acceptWaiting();
    this.#isClosing = true;
    // Not http's own close: it takes a connection for idle while the end of an answer is still on its way out.
    NetServer.prototype.close.call(this.#server);
    this.#closeIdleConnections();
    if (this.#openResponses.size > 0) await new Promise<void>((resolve) => (this.#onFlushed = resolve));
  }

  /** In a busy process the timer is late, and the event loop accepts one connection a turn: goes on until a turn has brought none. */
  async #acceptWaiting(): Promise<void> {
    let hasAccepted = true;
    const onConnection = (): void => void (hasAccepted = true);
    this.#server.on("connection", onConnection);
    for (let left = BACKLOG; hasAccepted && left > 0; left--) {
      hasAccepted = false;
      // The second one comes behind a whole turn.
      await new Promise<void>((resolve) => setImmediate(() => setImmediate(resolve)));
    }
    this.#server.off("connection", onConnection);
  }

  /** Ends all connections. */
  close(): void {
    this.#server.closeAllConnections();
  }

  #track(response: ServerResponse): void {
    this.#openResponses.add(response);
    response.once("close", () => this.#onResponseClosed(response));
    if (this.#isDraining) this.#makeLast(response);
  }

  /** Node closes a connection behind the answer that says so, whatever has come behind its request. */
  #makeLast(response: ServerResponse): void {
    for (const other of this.#openResponses) if (other.req.socket === response.req.socket) other.shouldKeepAlive = other !== response;
  }

  #onResponseClosed(response: ServerResponse): void {
    this.#openResponses.delete(response);
    try {
      if (response.headersSent) this.#counters.countStatus(response.statusCode);
      if (!response.req.complete) this.#clientErrors.onAnsweredEarly(response.req);
    } catch (error) {
      this.#defects.recover("client disconnect", error);
    }
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
      this.#defects.guard("http connection", () => {
        const isFlushing = this.#openResponses.values().some((response) => response.writableEnded && !response.writableFinished);
        if (!isFlushing) this.#server.closeIdleConnections();
      });
    });
  }
}
