// The WebSocket port for devices: admission and registration. "Remote Tool Call Mechanism", Connection Lifecycle.

import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, STATUS_CODES } from "node:http";
import { type AddressInfo, isIP, type Socket } from "node:net";
import type { Duplex } from "node:stream";
import { WebSocketServer } from "ws";
import { CLOSE, DeviceConnection } from "./device-connection.ts";
import { limitedLog, log } from "../log.ts";
import { type RateLimit, rateLimit } from "./rate-limit.ts";
import type { ToolRegistry } from "../registry.ts";
import type { Settings } from "../settings.ts";
import { DEVICE_NAME, findByToken } from "./known-devices.ts";
import { MAX_REGISTRATION_BYTES } from "./messages.ts";
import { checkTools } from "./tool-check.ts";

/** Connections and registrations of a device. */
const MAX_PER_MINUTE = 60;
/** Of a device, besides one message that may be the answer to a call: registrations, pongs, and all that nobody has asked for. */
const MAX_UNASKED_BYTES_PER_MINUTE = 1_048_576;
/** Of a connection without a registration, which may come in many frames. */
const MAX_UNREGISTERED_BYTES = 2 * MAX_REGISTRATION_BYTES;
/** Connections without an upgrade. */
const MAX_WAITING = 50;
const MAX_REPORTED_REJECTIONS = 20;
const CLOSE_TIMEOUT_MS = 500;

type Admission = { readonly device: string } | { readonly status: number; readonly reason: string };

export class Gateway {
  readonly #settings: Settings;
  readonly #registry: ToolRegistry;
  readonly #http: Server;
  readonly #sockets: WebSocketServer;
  readonly #connections = new Set<DeviceConnection>();
  readonly #waiting = new Set<Duplex>();
  /** Connections and registrations. */
  readonly #rate = rateLimit(MAX_PER_MINUTE);
  /** Over all connections of a device. */
  readonly #unaskedBytes: RateLimit;
  readonly #logWaiting = limitedLog();
  readonly #logRejected = limitedLog();
  #pings: NodeJS.Timeout | undefined;

  private constructor(settings: Settings, registry: ToolRegistry) {
    this.#settings = settings;
    this.#registry = registry;
    const maxMessageBytes = 2 * settings.limits.maxOutputBytes;
    this.#unaskedBytes = rateLimit(MAX_UNASKED_BYTES_PER_MINUTE + maxMessageBytes);
    const options = {
      noServer: true,
      clientTracking: false,
      // A compressed message could be far larger than it is on the wire.
      perMessageDeflate: false,
      maxPayload: maxMessageBytes,
      closeTimeout: CLOSE_TIMEOUT_MS,
    };
    this.#sockets = new WebSocketServer(options);
    this.#http = createServer({ maxHeaderSize: 8192 });
    this.#http.on("connection", (socket) => this.#onConnection(socket));
    this.#http.on("request", ({ socket }, response) => {
      response.writeHead(426, { Connection: "close" }).end("This port is for WebSocket.\n");
      stopParser(socket);
    });
    this.#http.on("upgrade", (request, socket, head) => this.#onUpgrade(request, socket, head));
  }

  /** @throws the error of `listen`, such as EADDRINUSE. */
  static async listen(settings: Settings, registry: ToolRegistry): Promise<Gateway> {
    const gateway = new Gateway(settings, registry);
    gateway.#http.listen(settings.port, settings.host);
    await once(gateway.#http, "listening");
    gateway.#pings = setInterval(() => gateway.#connections.forEach((each) => each.checkAlive()), settings.limits.pingIntervalMs);
    // Such as too many open files.
    gateway.#http.on("error", (error) => log(`gateway: ${error.message}`));
    const { address, port, family } = gateway.#http.address() as AddressInfo;
    log(`gateway listening at ws://${family === "IPv6" ? `[${address}]` : address}:${port}`);
    return gateway;
  }

  /** The connected devices that have registered their tools. */
  get devices(): DeviceConnection[] {
    return [...this.#connections].filter(({ isRegistered }) => isRegistered);
  }

  /** Disconnects all devices. @param onClosed is called when the last connection has ended. */
  close(onClosed: () => void): void {
    if (!this.#http.listening) return;
    clearInterval(this.#pings);
    for (const connection of this.#connections) connection.end(CLOSE.goingAway, "the gateway is stopping");
    this.#http.close(onClosed);
  }

  /** Connections without an upgrade cannot take the places of devices: the oldest of them has to go. */
  #onConnection(socket: Socket): void {
    this.#waiting.add(socket);
    socket.once("close", () => this.#waiting.delete(socket));
    const [oldest] = this.#waiting;
    if (this.#waiting.size <= MAX_WAITING || oldest === undefined) return;
    this.#waiting.delete(oldest);
    oldest.destroy();
    this.#logWaiting(`over ${MAX_WAITING} connections have not sent their requests: the oldest is closed`);
  }

  #onUpgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    this.#waiting.delete(socket);
    const onError = (): void => void socket.destroy();
    socket.on("error", onError);
    const admission = this.#admit(request);
    if ("status" in admission) {
      const { status, reason } = admission;
      this.#logRejected(`connection rejected: ${status} ${reason}`);
      socket.end(`HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\nConnection: close\r\nContent-Length: ${reason.length}\r\n\r\n${reason}`);
      socket.once("finish", () => socket.destroy());
      return;
    }
    this.#sockets.handleUpgrade(request, socket, head, (webSocket) => {
      socket.off("error", onError);
      const { device } = admission;
      // A device needs no more than one connection that has not registered yet.
      for (const other of this.#connections)
        if (other.device === device && !other.isRegistered) other.end(CLOSE.replaced, "replaced by a newer connection");
      const countUnasked = (bytes: number): boolean => {
        const isWithin = this.#unaskedBytes.add(device, bytes);
        if (!isWithin) connection.endUnread("too many bytes that answer no call");
        return isWithin;
      };
      const connection = new DeviceConnection(device, webSocket, this.#settings.limits, {
        onRegister: (registering, tools) => this.#register(registering, tools),
        onUnasked: countUnasked,
        onEnd: (ended) => {
          this.#connections.delete(ended);
          this.#registry.unregisterBySource({ kind: "remote", session: ended.session });
        },
      });
      this.#connections.add(connection);
      let received = 0;
      // Before the bytes become messages. A message is complete only at its end, and pings are none.
      socket.prependListener("data", (chunk: Buffer) => {
        received += chunk.length;
        if (countUnasked(chunk.length) && !connection.isRegistered && received > MAX_UNREGISTERED_BYTES)
          connection.endUnread(`more than ${MAX_UNREGISTERED_BYTES} bytes before the registration`);
      });
      log(`${device}: connected`);
    });
  }

  /** Decides before the upgrade. */
  #admit(request: IncomingMessage): Admission {
    const { knownDevices, limits } = this.#settings;
    if (!this.#http.listening) return { status: 503, reason: "the gateway is stopping" };
    // A page in a browser could connect to a gateway of the same machine. Only browsers send this header.
    if (request.headers.origin !== undefined) return { status: 403, reason: "web pages cannot be devices" };
    // A page whose name resolves to this machine (DNS rebinding). With tokens, a proxy may have any name.
    if (knownDevices === undefined && !isLocalHost(request.headers.host))
      return { status: 403, reason: "the host must be localhost or an address" };
    const asked = URL.parse(request.url ?? "", "ws://gateway")?.searchParams.get("device") ?? "device";
    const device = knownDevices === undefined ? asked : findByToken(knownDevices, request.headers.authorization)?.device;
    if (device === undefined) return { status: 401, reason: "the token is missing or wrong" };
    if (!DEVICE_NAME.test(device)) return { status: 400, reason: "?device= must be a name like pixel-8" };
    const connected = new Set([...this.#connections].map((each) => each.device));
    if (!connected.has(device)) {
      if (connected.size >= limits.maxDevices) return { status: 503, reason: "too many devices" };
      // Without tokens, a device could have a new name for each connection.
      if (knownDevices === undefined && !this.#rate.hasPlaceFor(device, 2 * limits.maxDevices))
        return { status: 429, reason: "too many names in a minute" };
    }
    if (!this.#rate.add(device)) return { status: 429, reason: "too many connections in a minute" };
    if (!this.#unaskedBytes.add(device, 0)) return { status: 429, reason: "too many bytes in a minute that answer no call" };
    return { device };
  }

  /** Makes these the tools of the device. They replace those of its older connection, which then ends. */
  #register(connection: DeviceConnection, tools: readonly unknown[]): void {
    const { device, session } = connection;
    const { knownDevices, allowedTools, limits } = this.#settings;
    if (!this.#rate.add(device)) return connection.end(CLOSE.policyViolation, "too many registrations in a minute");
    const ownTools = knownDevices?.find((each) => each.device === device)?.allowedTools ?? allowedTools;
    const { accepted, rejected } = checkTools(device, tools, [allowedTools, ownTools], limits.maxToolsPerDevice);
    const source = { kind: "remote", session } as const;
    const names = new Set([...accepted.values()].map(({ name }) => name));
    for (const name of this.#registry.toolNames(source)) if (!names.has(name)) this.#registry.unregister(name);
    // The RemoteTool of ClawSeed.
    for (const [deviceName, spec] of accepted)
      this.#registry.registerOrReplace({ spec, execute: (args, context) => connection.call(deviceName, args, context) }, source);
    connection.isRegistered = true;
    // In order of connection. A newer one may be about to register.
    for (const older of this.#connections) {
      if (older === connection) break;
      if (older.device === device) older.end(CLOSE.replaced, "replaced by a newer connection");
    }
    log(`${device}: ${accepted.size} of ${tools.length} tools registered`);
    const reported = rejected.length === 0 ? undefined : rejected.slice(0, MAX_REPORTED_REJECTIONS);
    connection.send({ type: "tools_registered", count: tools.length, registered: accepted.size, rejected: reported });
  }
}

/**
 * Makes Node drop what a client has sent after its request. Otherwise, it would first handle thousands of requests that have arrived at once.
 * The API is not documented; without it, they cost that time.
 */
function stopParser(socket: Socket): void {
  const { parser } = socket as { readonly parser?: { onIncoming?: () => number } | null };
  if (typeof parser?.onIncoming === "function") parser.onIncoming = () => -1;
}

/** True for a host that no web page of a stranger can have. */
function isLocalHost(authority = "localhost"): boolean {
  const host = URL.parse(`ws://${authority}`)?.hostname.replaceAll(/[[\]]/g, "") ?? "";
  return host === "localhost" || isIP(host) !== 0;
}
