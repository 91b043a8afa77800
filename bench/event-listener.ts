// A GET event stream that waits for one kind of message.

import { connect, type Socket } from "node:net";

// All listeners read into one buffer, because each chunk is consumed before the next read.
const readBuffer = Buffer.allocUnsafe(65_536);
const HEAD_END = "\r\n\r\n";

export class EventListener {
  readonly #socket: Socket;
  readonly #needle: string;
  #unread = "";
  #onOpen: (() => void) | null = null;
  #onMessage: (() => void) | null = null;
  #fail: (error: Error) => void = () => undefined;
  readonly #failed: Promise<never>;

  /** @param needle a text that occurs only in the awaited messages. */
  private constructor(port: number, needle: string) {
    this.#needle = needle;
    this.#failed = new Promise((_resolve, reject) => {
      this.#fail = reject;
    });
    // `next` reports the failure, but may not be waiting for it.
    this.#failed.catch(() => undefined);
    const onread = {
      buffer: readBuffer,
      callback: (bytesRead: number) => {
        this.#read(readBuffer.toString("latin1", 0, bytesRead));
        return true;
      },
    };
    this.#socket = connect({ host: "127.0.0.1", port, onread });
    this.#socket.on("error", (error) => this.#fail(error));
    this.#socket.on("close", () => this.#fail(new Error("event stream closed by the target")));
  }

  /** Opens the stream. Resolves at the beginning of the response. */
  static async open(port: number, request: string, needle: string): Promise<EventListener> {
    const listener = new EventListener(port, needle);
    const opened = new Promise<void>((resolve) => {
      listener.#onOpen = resolve;
    });
    listener.#socket.write(request, "latin1");
    await Promise.race([opened, listener.#failed]);
    return listener;
  }

  /** Resolves when a message has arrived. Must be called before it can arrive. */
  async next(): Promise<void> {
    const arrived = new Promise<void>((resolve) => {
      this.#onMessage = resolve;
    });
    return Promise.race([arrived, this.#failed]);
  }

  close(): void {
    this.#socket.destroy();
  }

  #read(text: string): void {
    this.#unread += text;
    if (this.#onOpen !== null && !this.#readHead()) return;
    const found = this.#unread.indexOf(this.#needle);
    if (found === -1) {
      // The rest may be the beginning of the needle.
      this.#unread = this.#unread.slice(-this.#needle.length);
      return;
    }
    this.#unread = this.#unread.slice(found + this.#needle.length);
    this.#onMessage?.();
  }

  #readHead(): boolean {
    const end = this.#unread.indexOf(HEAD_END);
    if (end === -1) return false;
    if (!this.#unread.startsWith("HTTP/1.1 200")) this.#fail(new Error(`event stream rejected: ${this.#unread.slice(0, 200)}`));
    this.#unread = this.#unread.slice(end + HEAD_END.length);
    this.#onOpen?.();
    this.#onOpen = null;
    return true;
  }
}
