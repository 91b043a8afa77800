import { once } from "node:events";
import { createServer, type IncomingMessage, type RequestListener, type Server, type ServerResponse, STATUS_CODES } from "node:http";
import { type AddressInfo, Server as NetServer, type Socket } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import type { ListenAddress } from "../config/authority.ts";
import type { Context } from "../context.ts";
import { SidecarError, type SidecarErrorCode } from "../mcp/errors.ts";
import { ROUTES } from "../routes.ts";
import type { Principal } from "../session/session.ts";
import type { AuthTokens } from "./auth-tokens.ts";
import { errorBody, LINGER_MS, reject, rejectionOf, sendDefect, stopParser } from "./response.ts";
import { countCutOff, takenBytes } from "./unread-output.ts";

class Connection {
  readonly socket: Socket;
  /** In the order of requests. Each leaves when its last byte is passed to the operating system. */
  readonly responses: ServerResponse[] = [];
  idleSinceMs: number;
  principal: Principal | undefined;
  /** The number of requests in the last read, and the bytes read by then. */
  requestsOfRead = 0;
  bytesRead = 0;
  /** True if no further request is handled, and no error. */
  isStopped = false;
  /** The last request that was answered before it had arrived completely. */
  answeredEarly: IncomingMessage | undefined;
  /** Shows how much the client has read, and when this last grew. A reader that stalls is disconnected. */
  readBytes = 0;
  readAtMs = 0;

  constructor(socket: Socket, nowMs: number) {
    [this.socket, this.idleSinceMs] = [socket, nowMs];
  }
}

function longestIdle(connections: Iterable<Connection>): Connection | undefined {
  let found: Connection | undefined;
  for (const each of connections) if (each.responses.length === 0 && each.idleSinceMs < (found?.idleSinceMs ?? Infinity)) found = each;
  return found;
}

/** Unanswered, or read at once. Some clients send a few ahead. */
const MAX_REQUESTS_AHEAD = 16;
/** Probes must be answered however many clients are connected. */
const PROBE_PATHS: ReadonlySet<string> = new Set([ROUTES.live.path, ROUTES.ready.path, ROUTES.health.path]);

/**
 * The open connections, within limits. One is new until a client's request has come on it. A flood of new ones closes no other, and leaves
 * room for probes.
 */
class Connections {
  readonly all = new Map<Socket, Connection>();
  /** The oldest first. */
  readonly #new = new Set<Connection>();
  openResponses = 0;
  /** True if each further response is the last of its connection. */
  isDraining = false;
  onResponseClosed: (() => void) | undefined;
  /** The requests that have arrived while the handler is loaded. */
  readonly early: Parameters<RequestListener>[] = [];
  app: RequestListener = (...request) => this.early.push(request);
  readonly #context: Context;
  readonly #tokens: AuthTokens | undefined;

  /** @param tokens undefined if none is configured. A connection that has shown one is never closed to make room. */
  constructor(context: Context, tokens: AuthTokens | undefined) {
    [this.#context, this.#tokens] = [context, tokens];
  }

  /** At the limit, closes the new connection that has been idle for longest, else the oldest. */
  add(socket: Socket): void {
    const { maxConnections, maxConnectionsWithoutToken } = this.#context.config;
    // Without a token, each client is new until its first request, so new connections may use all places that are left.
    const excess = this.#tokens === undefined ? this.all.size - maxConnections : this.#new.size;
    const [oldest] = this.#new;
    if (excess >= maxConnectionsWithoutToken && oldest !== undefined)
      this.#drop(longestIdle(this.#new) ?? oldest, "MAX_CONNECTIONS_WITHOUT_TOKEN");
    const connection = new Connection(socket, this.#context.nowMs());
    const { responses } = connection;
    this.all.set(socket, connection);
    this.#new.add(connection);
    socket.once("close", () => {
      this.#delete(connection);
      if (responses.length === 0) return;
      // Node 22 does not close responses that wait for the one before them. The others are closed by Node first, each once.
      setImmediate(() => {
        for (const response of responses.slice()) response.destroy().emit("close");
      });
    });
  }

  /** Passes the request on. Above a limit it is rejected, and those behind it are dropped. */
  readonly onRequest: RequestListener = (request, response) => {
    try {
      const { socket } = request;
      const connection = this.all.get(socket);
      if (connection === undefined || connection.isStopped) return;
      connection.responses.push(response);
      this.openResponses++;
      response.on("close", () => this.#onClosed(response, connection));
      // After a response with `Connection: close`, Node drops all later requests.
      if (this.isDraining) for (const each of connection.responses) each.shouldKeepAlive = each !== response;
      let refusal: SidecarError;
      if (this.#new.has(connection) && !this.#admitsClient(request, connection)) {
        const message =
          "All connections that CLAW_MCP_STDIO_MAX_CONNECTIONS permits are in use. The request was not sent to the MCP server.";
        refusal = new SidecarError("OVERLOADED", message, { retryAfterSeconds: 1 });
      } else {
        // Requests with a body may be answered one by one, though they were read at once.
        const { bytesRead } = socket;
        connection.requestsOfRead = bytesRead === connection.bytesRead ? connection.requestsOfRead + 1 : 1;
        connection.bytesRead = bytesRead;
        if (connection.responses.length <= MAX_REQUESTS_AHEAD && connection.requestsOfRead <= MAX_REQUESTS_AHEAD)
          return this.app(request, response);
        const message = `More than ${MAX_REQUESTS_AHEAD} requests were sent ahead on this connection.`;
        refusal = new SidecarError("SESSION_OVERLOADED", message, { retryAfterSeconds: 1 });
      }
      connection.isStopped = true;
      stopParser(socket);
      reject(response, refusal, { Connection: "close" });
    } catch (error) {
      this.#context.defects.recover("http request", error, () => sendDefect(response, false));
    }
  };

  onRevoked(principal: Principal): void {
    for (const connection of this.all.values()) {
      if (connection.principal !== principal) continue;
      connection.principal = undefined;
      this.#new.add(connection);
    }
  }

  /** A client's request is no probe, and has a valid token if one is configured. @returns false if there is no room. */
  #admitsClient({ url = "", headers: { authorization } }: IncomingMessage, connection: Connection): boolean {
    if (PROBE_PATHS.has(url)) return true;
    const principal = authorization === undefined ? undefined : this.#tokens?.identify(authorization);
    if (this.#tokens !== undefined && principal === undefined) return true;
    if (this.all.size - this.#new.size >= this.#context.config.maxConnections) {
      const admitted = this.all.values().filter((each) => !this.#new.has(each));
      const oldest = this.#tokens === undefined ? longestIdle(admitted) : undefined;
      if (oldest === undefined) {
        this.#report("MAX_CONNECTIONS");
        return false;
      }
      this.#drop(oldest, "MAX_CONNECTIONS");
    }
    this.#new.delete(connection);
    connection.principal = principal;
    return true;
  }

  #onClosed(response: ServerResponse, connection: Connection): void {
    const { responses } = connection;
    // The close of its connection may have closed it before.
    const index = responses.indexOf(response);
    if (index === -1) return;
    responses.splice(index, 1);
    connection.idleSinceMs = this.#context.nowMs();
    this.openResponses--;
    const { counters, defects, records } = this.#context;
    try {
      if (response.headersSent) counters.byKey.statuses.count(response.statusCode);
      const rejected = response.statusCode >= 400 ? rejectionOf(response, this.#tokens) : undefined;
      if (rejected !== undefined) records.rejected(rejected);
      if (!response.req.complete) connection.answeredEarly = response.req;
    } catch (error) {
      defects.recover("client disconnect", error);
    }
    this.onResponseClosed?.();
  }

  #drop(connection: Connection, limit: string): void {
    this.#delete(connection);
    connection.socket.destroy();
    this.#report(limit);
  }

  #report(limit: string): void {
    this.#context.counters.http.connectionsDropped++;
    this.#context.limitedLog.warn({ reason: `${limit} is reached` }, "connection closed: too many");
  }

  #delete(connection: Connection): void {
    this.all.delete(connection.socket);
    this.#new.delete(connection);
  }
}

type ClientError = readonly [status: number, code: SidecarErrorCode, reason: string];

const NOT_HTTP: ClientError = [400, "INVALID_REQUEST", "The request is not valid HTTP."];
const TIMED_OUT = "ERR_HTTP_REQUEST_TIMEOUT";

const CLIENT_ERRORS: Readonly<Record<string, ClientError>> = {
  HPE_HEADER_OVERFLOW: [431, "INVALID_REQUEST", "The request headers are too large."],
  HPE_INVALID_EOF_STATE: [400, "BODY_INCOMPLETE", "The connection closed before the whole request arrived."],
  [TIMED_OUT]: [408, "BODY_INCOMPLETE", "The request did not arrive in time."],
};

const MAX_SWEEP_MS = 1000;
/** Looks at a client before its time is over. */
const SWEEPS = 8;

/** A timer for each response would slow down every call, so one watch looks at all. @returns the timer. */
function watchStalledReaders(context: Context, { all }: Connections): NodeJS.Timeout {
  const { config, defects, nowMs } = context;
  const sweep = (): void => {
    const now = nowMs();
    for (const [socket, connection] of all) {
      const { writableLength } = socket;
      const readBytes = writableLength === 0 || connection.responses.length === 0 ? -1 : takenBytes(socket);
      if (readBytes === -1 || readBytes !== connection.readBytes) [connection.readBytes, connection.readAtMs] = [readBytes, now];
      else if (now - connection.readAtMs >= config.readerTimeoutMs) {
        socket.destroy();
        countCutOff(context, writableLength, "nothing was read in time");
      }
    }
  };
  const intervalMs = Math.min(MAX_SWEEP_MS, Math.ceil(config.readerTimeoutMs / SWEEPS));
  return setInterval(() => defects.guard("stalled readers", sweep), intervalMs).unref();
}

/** The announced CONNECTION_IDLE_TIMEOUT_MS is shorter: a client on a busy machine may be late. */
const MAX_IDLE_BUFFER_MS = 10_000;
const ARRIVAL_CHECK_MS = 500;
/** Connections are accepted for this time after the drain: closing the socket resets those in its backlog. */
const LAST_ARRIVALS_MS = 100;
/** Node's default for `listen`. */
const BACKLOG = 511;

export class HttpListener {
  readonly connections: Connections;
  readonly #server: Server;
  readonly #context: Context;
  readonly #stalledReaders: NodeJS.Timeout;
  #isClosingIdle = false;

  constructor(context: Context, tokens: AuthTokens | undefined) {
    const { config, defects } = context;
    this.#context = context;
    this.connections = new Connections(context, tokens);
    this.#stalledReaders = watchStalledReaders(context, this.connections);
    this.#server = createServer({
      keepAliveTimeout: config.connectionIdleTimeoutMs,
      keepAliveTimeoutBuffer: Math.min(MAX_IDLE_BUFFER_MS, config.connectionIdleTimeoutMs),
      // Node rejects a limit for headers above that of the request.
      headersTimeout: Math.min(config.headersTimeoutMs, config.bodyTimeoutMs),
      requestTimeout: config.bodyTimeoutMs,
      connectionsCheckingInterval: ARRIVAL_CHECK_MS,
      requireHostHeader: false,
    });
    const { onRequest } = this.connections;
    this.#server.on("request", onRequest);
    // An unknown expectation is ignored (RFC 9110 §10.1.1). Node handles `100-continue`, the only defined one.
    this.#server.on("checkExpectation", onRequest);
    const guard = (socket: Socket, handle: () => void): void => defects.guard("http connection", handle, () => socket.destroy());
    this.#server.on("connection", (socket: Socket) => guard(socket, () => this.connections.add(socket)));
    this.#server.on("clientError", (error: NodeJS.ErrnoException, socket: Socket) =>
      guard(socket, () => this.#onClientError(error, socket)),
    );
  }

  serve(app: RequestListener): void {
    this.connections.app = app;
    for (const [request, response] of this.connections.early.splice(0))
      this.#context.defects.guard(
        "http request",
        () => app(request, response),
        () => sendDefect(response, false),
      );
  }

  /** @returns the address as `host:port`. @throws the system's error, for example EADDRINUSE. */
  async listen({ host, port }: ListenAddress): Promise<string> {
    this.#server.listen({ port, ...(host === undefined ? {} : { host }) });
    await once(this.#server, "listening");
    const { address, family, port: actualPort } = this.#server.address() as AddressInfo;
    return family === "IPv6" ? `[${address}]:${actualPort}` : `${address}:${actualPort}`;
  }

  /** New connections are still accepted. */
  closeAfterResponses(): void {
    this.connections.isDraining = true;
    for (const { responses } of this.connections.all.values()) {
      const last = responses.at(-1);
      if (last !== undefined) last.shouldKeepAlive = false;
    }
  }

  /** Accepts what clients have already opened. Resolves when all responses are passed to the operating system. */
  async stopAccepting(): Promise<void> {
    await delay(LAST_ARRIVALS_MS);
    await this.#acceptWaiting();
    // The close of `http.Server` also closes connections on which a response is still being written.
    NetServer.prototype.close.call(this.#server);
    await new Promise<void>((resolve) => {
      this.connections.onResponseClosed = () => {
        this.#closeIdleConnections();
        if (this.connections.openResponses === 0) resolve();
      };
      this.connections.onResponseClosed();
    });
  }

  /** Until a turn accepts no connection: each accepts one, and the timer is late in a busy process. */
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

  close(): void {
    clearInterval(this.#stalledReaders);
    NetServer.prototype.close.call(this.#server);
    this.#server.closeAllConnections();
  }

  /** The data is not HTTP, or does not arrive in time. */
  #onClientError(error: NodeJS.ErrnoException, socket: Socket): void {
    const connection = this.connections.all.get(socket);
    // Each further chunk of data causes another error.
    if (connection?.isStopped) return;
    if (!socket.writable || error.code === "ECONNRESET" || connection?.answeredEarly?.complete === false) {
      socket.destroy();
      return;
    }
    const last = connection?.responses.findLast(({ req, headersSent }) => req.complete || headersSent);
    if (last !== undefined) {
      // The client would read a response sent now as that of its pending request. If only the next request is late, the pending one is
      // answered first.
      if (error.code === TIMED_OUT && last.req.complete) last.once("close", () => socket.destroySoon());
      else socket.destroy();
    } else if (error.code === TIMED_OUT && socket.bytesRead === 0) {
      // Clients open connections in advance, and would read a response as that of their first request.
      socket.destroy();
    } else {
      // The response says that the request was not sent, so a request that arrives after all must not be handled.
      if (error.code === TIMED_OUT) socket.pause();
      if (connection !== undefined) connection.isStopped = true;
      this.#endWith(CLIENT_ERRORS[error.code ?? ""] ?? NOT_HTTP, socket);
    }
  }

  #endWith([httpStatus, code, reason]: ClientError, socket: Socket): void {
    const principal = socket.remoteAddress ?? "unknown";
    const body = errorBody(new SidecarError(code, reason), undefined);
    const headers = `Content-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\nConnection: close`;
    // A client that does not close its side would keep the socket open forever.
    const timer = setTimeout(() => socket.destroy(), LINGER_MS);
    socket.once("close", () => clearTimeout(timer));
    socket.end(`HTTP/1.1 ${httpStatus} ${STATUS_CODES[httpStatus]}\r\n${headers}\r\n\r\n${body}`);
    const { counters, records } = this.#context;
    counters.byKey.statuses.count(httpStatus);
    records.rejected({ code, httpStatus, reason, principal, sessionId: undefined, requestBytes: undefined });
  }

  /** Checks every connection, so all responses of one turn cause one look. */
  #closeIdleConnections(): void {
    if (this.#isClosingIdle) return;
    this.#isClosingIdle = true;
    setImmediate(() => {
      this.#isClosingIdle = false;
      this.#context.defects.guard("http connection", () => {
        const isFlushing = this.connections.all
          .values()
          .some(({ responses }) => responses.some(({ writableEnded, writableFinished }) => writableEnded && !writableFinished));
        if (!isFlushing) this.#server.closeIdleConnections();
      });
    });
  }
}
