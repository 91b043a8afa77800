import { once } from "node:events";
import { createServer, type Server, type Socket } from "node:net";

/** The commands of the protocol, as numbers of four letters. */
const COMMAND = { CNXN: 0x4e584e43, OPEN: 0x4e45504f, OKAY: 0x59414b4f, WRTE: 0x45545257, CLSE: 0x45534c43 } as const;
const HEADER_BYTES = 24;
const MAX_DATA_BYTES = 1024 * 1024;
const VERSION = 0x01000001;
const STDOUT = 1;
const STDERR = 2;
const EXIT = 3;

/** The output of a command. `hangs`: it never ends. */
export interface Output {
  readonly stdout?: string | Buffer;
  readonly stderr?: string;
  readonly exitCode?: number;
  readonly hangs?: boolean;
}

export type Shell = (command: string) => Output;

interface Stream {
  readonly hostId: number;
  /** Resolves when the host has taken the last data. */
  taken: PromiseWithResolvers<void>;
}

/** A device as the adb server sees it over TCP. It accepts every computer, and has the services `shell`, `shell,v2` and `exec`. */
export class AdbDevice {
  readonly #shell: Shell;
  readonly #sockets = new Set<Socket>();
  readonly #server: Server;

  constructor(shell: Shell) {
    this.#shell = shell;
    this.#server = createServer((socket) => void this.#serve(socket).catch(() => socket.destroy()));
  }

  /** @returns the port. */
  async listen(port: number, host: string): Promise<number> {
    this.#server.listen(port, host);
    await once(this.#server, "listening");
    return (this.#server.address() as { port: number }).port;
  }

  /** Ends all connections, as a device that is switched off. */
  async close(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    if (!this.#server.listening) return;
    this.#server.close();
    await once(this.#server, "close");
  }

  async #serve(socket: Socket): Promise<void> {
    this.#sockets.add(socket);
    socket.once("close", () => this.#sockets.delete(socket)).on("error", () => socket.destroy());
    const streams = new Map<number, Stream>();
    let received = Buffer.alloc(0);
    for await (const chunk of socket) {
      received = Buffer.concat([received, chunk as Buffer]);
      while (received.length >= HEADER_BYTES) {
        const end = HEADER_BYTES + received.readUInt32LE(12);
        if (end > HEADER_BYTES + MAX_DATA_BYTES) throw new RangeError("not a message of adb, such as an HTTP request");
        if (received.length < end) break;
        this.#receive(socket, streams, received.subarray(0, end));
        received = received.subarray(end);
      }
    }
  }

  #receive(socket: Socket, streams: Map<number, Stream>, message: Buffer): void {
    const [command, hostId, deviceId] = [message.readUInt32LE(0), message.readUInt32LE(4), message.readUInt32LE(8)];
    const data = message.subarray(HEADER_BYTES);
    if (command === COMMAND.CNXN) {
      const banner = "device::ro.product.name=stand_in;ro.product.model=Stand-in;ro.product.device=stand_in;features=shell_v2,cmd";
      send(socket, COMMAND.CNXN, VERSION, MAX_DATA_BYTES, Buffer.from(banner));
    } else if (command === COMMAND.OPEN) {
      const id = streams.size + 1;
      streams.set(id, { hostId, taken: Promise.withResolvers() });
      send(socket, COMMAND.OKAY, id, hostId);
      void this.#run(socket, streams, id, data.toString().replace(/\0$/, ""));
    } else if (command === COMMAND.OKAY) streams.get(deviceId)?.taken.resolve();
    else if (command === COMMAND.WRTE) send(socket, COMMAND.OKAY, deviceId, hostId);
  }

  async #run(socket: Socket, streams: ReadonlyMap<number, Stream>, id: number, service: string): Promise<void> {
    const [, kind = "", command = ""] = /^(shell|shell,v2[^:]*|exec):(.*)$/s.exec(service) ?? [];
    const stream = streams.get(id);
    if (stream === undefined) return;
    const { stdout = "", stderr = "", exitCode = 0, hangs = false } = kind === "" ? { exitCode: 1 } : this.#shell(command);
    const isV2 = kind.startsWith("shell,v2");
    const parts = isV2 ? [packet(STDERR, stderr), packet(STDOUT, stdout)] : [Buffer.from(stderr), Buffer.from(stdout)];
    if (isV2 && !hangs) parts.push(packet(EXIT, Buffer.from([exitCode])));
    const all = Buffer.concat(parts);
    for (let at = 0; at < all.length; at += MAX_DATA_BYTES / 16) {
      stream.taken = Promise.withResolvers();
      send(socket, COMMAND.WRTE, id, stream.hostId, all.subarray(at, at + MAX_DATA_BYTES / 16));
      await stream.taken.promise;
    }
    if (!hangs) send(socket, COMMAND.CLSE, id, stream.hostId);
  }
}

/** A packet of the protocol of shell_v2. */
function packet(kind: number, text: string | Buffer): Buffer {
  const data = Buffer.from(text as string);
  const head = Buffer.from([kind, 0, 0, 0, 0]);
  head.writeUInt32LE(data.length, 1);
  return data.length === 0 ? data : Buffer.concat([head, data]);
}

function send(socket: Socket, command: number, one: number, two: number, data: Buffer = Buffer.alloc(0)): void {
  const head = Buffer.alloc(HEADER_BYTES);
  // This version of the protocol has no checksum.
  for (const [index, value] of [command, one, two, data.length, 0, ~command >>> 0].entries()) head.writeUInt32LE(value >>> 0, 4 * index);
  if (socket.writable) socket.write(Buffer.concat([head, data]));
}
