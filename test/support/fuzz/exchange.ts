import type { Server } from "node:http";
import { Duplex } from "node:stream";

/** The server's end of a connection without a socket. */
class Connection extends Duplex {
  readonly remoteAddress: string;
  readonly #onOutput: (text: string) => void;

  constructor(remoteAddress: string, onOutput: (text: string) => void) {
    super({ decodeStrings: false, read: () => undefined });
    [this.remoteAddress, this.#onOutput] = [remoteAddress, onOutput];
  }

  override _write(chunk: string | Buffer, _encoding: BufferEncoding, done: () => void): void {
    this.#onOutput(chunk.toString());
    done();
  }

  override _final(done: () => void): void {
    done();
    this.push(null);
  }
}

/** An HTTP request on a connection of its own, and its response so far. */
export class Exchange {
  status = 0;
  /** True when nothing else can come. */
  isOver = false;
  isClosedByClient = false;
  lastEventId = "";
  readonly #connection: Connection;
  readonly #onMessage: (text: string, exchange: Exchange) => void;
  readonly #onOver: (exchange: Exchange) => void;
  #head = "";
  #text = "";

  constructor(
    server: Server,
    method: string,
    headers: Readonly<Record<string, string | undefined>>,
    body: string,
    address: string,
    onMessage: (text: string, exchange: Exchange) => void,
    onOver: (exchange: Exchange) => void,
  ) {
    [this.#onMessage, this.#onOver] = [onMessage, onOver];
    this.#connection = new Connection(address, (text) => this.#onText(text));
    this.#connection.on("error", () => undefined).on("close", () => this.#onClose());
    server.emit("connection", this.#connection);
    const lines = Object.entries({ ...headers, "Content-Length": method === "POST" ? Buffer.byteLength(body) : undefined })
      .filter(([, value]) => value !== undefined)
      .map(([name, value]) => `${name}: ${value}\r\n`);
    // A response to HTTP/1.0 has no chunks: it ends with the connection.
    this.#connection.push(`${method} /mcp HTTP/1.0\r\n${lines.join("")}\r\n${body}`);
  }

  header(name: string): string | undefined {
    return new RegExp(`^${name}: (.*)\r$`, "im").exec(this.#head)?.[1];
  }

  close(): void {
    if (this.isOver) return;
    this.isOver = this.isClosedByClient = true;
    this.#connection.destroy();
  }

  get #isStream(): boolean {
    return this.header("content-type") === "text/event-stream";
  }

  #onText(text: string): void {
    if (this.isOver) return;
    this.#text += text;
    if (this.status === 0) {
      const end = this.#text.indexOf("\r\n\r\n");
      if (end === -1) return;
      this.#head = this.#text.slice(0, end + 2);
      this.status = Number(this.#head.split(" ", 2)[1]);
      this.#text = this.#text.slice(end + 4);
    }
    if (!this.#isStream) return;
    const events = this.#text.split("\n\n");
    this.#text = events.pop() ?? "";
    for (const event of events) {
      this.lastEventId = /^id: (.*)$/m.exec(event)?.[1] ?? this.lastEventId;
      const data = /^data: (.+)$/m.exec(event)?.[1];
      if (data !== undefined) this.#onMessage(data, this);
    }
  }

  #onClose(): void {
    if (this.isOver) return;
    this.isOver = true;
    const messages = this.#isStream || this.#text === "" ? [] : [JSON.parse(this.#text) as unknown].flat();
    for (const each of messages) this.#onMessage(JSON.stringify(each), this);
    this.#onOver(this);
  }
}
