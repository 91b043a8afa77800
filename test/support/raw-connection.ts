import { once } from "node:events";
import { type Socket, connect } from "node:net";
import type { Headers, HttpReply } from "./http-client.ts";
import { JSON_HEADERS } from "./mcp-client.ts";

/** One TCP connection to an HTTP server, for bytes that HTTP clients would not send. */
export class RawConnection implements Disposable {
  readonly #socket: Socket;
  readonly #closed: Promise<void>;
  #received = Buffer.alloc(0);
  #end: string | undefined;
  #onChange: (() => void) | undefined;

  private constructor(socket: Socket) {
    this.#socket = socket;
    this.#closed = new Promise((resolve) => socket.once("close", () => resolve()));
    const ended = (why: string): void => {
      this.#end ??= why;
      this.#onChange?.();
    };
    socket.on("data", (chunk: Buffer) => {
      this.#received = Buffer.concat([this.#received, chunk]);
      this.#onChange?.();
    });
    socket.once("error", (error) => ended(error.message));
    socket.once("end", () => ended("closed"));
    socket.once("close", () => ended("closed"));
  }

  /**
   * @param allowHalfOpen true if the client goes on writing after the server has ended its side.
   * @param localAddress the address of the client, such as 127.0.0.2.
   */
  static async open(origin: string, allowHalfOpen = false, localAddress?: string): Promise<RawConnection> {
    const { hostname, port } = new URL(origin);
    const socket = connect({ host: hostname, port: Number(port), allowHalfOpen, ...(localAddress === undefined ? {} : { localAddress }) });
    await once(socket, "connect");
    return new RawConnection(socket);
  }

  /** Resolves when the operating system has accepted all of it. */
  write(bytes: string | Buffer): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#socket.write(bytes, (error) => (error ? reject(error) : resolve()));
    });
  }

  end(): void {
    this.#socket.end();
  }

  /** Reads the next reply, to the end that its Content-Length gives. Without one, or to HEAD, it has no body. */
  async reply(method = "GET"): Promise<HttpReply> {
    for (;;) {
      const headEnd = this.#received.indexOf("\r\n\r\n");
      if (headEnd !== -1) {
        const [statusLine = "", ...fields] = this.#received.subarray(0, headEnd).toString("latin1").split("\r\n");
        const headers = Object.fromEntries(fields.map(readField));
        const bodyStart = headEnd + 4;
        const bodyEnd = bodyStart + (method === "HEAD" ? 0 : Number(headers["content-length"] ?? 0));
        if (this.#received.length >= bodyEnd) {
          const body = this.#received.subarray(bodyStart, bodyEnd).toString();
          this.#received = this.#received.subarray(bodyEnd);
          return { status: Number(statusLine.split(" ")[1]), headers, body };
        }
      }
      if (this.#end !== undefined) throw new Error(`connection ended (${this.#end}) after: ${this.#received.toString()}`);
      await new Promise<void>((resolve) => (this.#onChange = resolve));
    }
  }

  /** Waits until the server ends the connection. @returns the bytes that were not read as a reply, and the kind of end. */
  async rest(): Promise<{ readonly text: string; readonly end: string | undefined }> {
    await this.#closed;
    return { text: this.#received.toString(), end: this.#end };
  }

  [Symbol.dispose](): void {
    this.#socket.destroy();
  }
}

function readField(field: string): [name: string, value: string] {
  const colon = field.indexOf(":");
  return [field.slice(0, colon).toLowerCase(), field.slice(colon + 1).trim()];
}

/** Returns a request's head as sent over the wire, for connections that tests write to directly. */
export function headBytes(requestLine: string, headers: Headers = {}): string {
  const fields = Object.entries({ Host: "localhost", ...headers }).map(([name, value]) => `${name}: ${value}`);
  return [`${requestLine} HTTP/1.1`, ...fields, "", ""].join("\r\n");
}

export function postBytes(message: object, sessionId?: string): string {
  const body = JSON.stringify(message);
  const session = sessionId === undefined ? {} : { "Mcp-Session-Id": sessionId };
  return headBytes("POST /mcp", { ...JSON_HEADERS, ...session, "Content-Length": String(Buffer.byteLength(body)) }) + body;
}

export function getBytes(path: string, headers: Headers = {}): string {
  return headBytes(`GET ${path}`, headers);
}
