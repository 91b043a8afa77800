import { once } from "node:events";
import { type ClientOptions, WebSocket } from "ws";

export type Message = Readonly<Record<string, unknown>>;

/** A tool as in the messages of ClawSeed. */
export function tool(name: string, parameters: unknown = { type: "object", properties: {}, required: [] }): Message {
  return { name, description: `The tool ${name}`, parameters };
}

/** A device that does only what a test tells it to. */
export class RawDevice implements Disposable {
  readonly socket: WebSocket;
  readonly closed: Promise<{ readonly code: number; readonly reason: string }>;
  /** Messages that no test has taken yet. */
  readonly #unread: Message[] = [];
  readonly #onMessage = new Set<() => void>();
  #isClosed = false;

  constructor(url: string, device?: string, options: ClientOptions = {}) {
    this.socket = new WebSocket(device === undefined ? url : `${url}?device=${device}`, options);
    this.socket.on("error", () => undefined);
    this.socket.on("message", (data) => {
      this.#unread.push(JSON.parse((data as Buffer).toString()) as Message);
      for (const notify of this.#onMessage) notify();
    });
    this.closed = new Promise((resolve) =>
      this.socket.once("close", (code, reason) => {
        this.#isClosed = true;
        resolve({ code, reason: reason.toString() });
      }),
    );
  }

  /** Connects and registers tools. */
  static async with(url: string, device: string | undefined, tools: readonly unknown[], options: ClientOptions = {}): Promise<RawDevice> {
    const raw = new RawDevice(url, device, options);
    await once(raw.socket, "open");
    await raw.register(tools);
    return raw;
  }

  async register(tools: readonly unknown[]): Promise<Message> {
    this.send({ type: "register_tools", tools });
    return this.next("tools_registered");
  }

  send(message: object): void {
    this.socket.send(JSON.stringify(message));
  }

  answer(id: unknown, output: string): void {
    this.send({ type: "tool_result", id, output, success: true });
  }

  /** Takes the next message of a type, past or future. @throws Error if the connection ends before. */
  async next(type: string): Promise<Message> {
    for (;;) {
      const index = this.#unread.findIndex((each) => each["type"] === type);
      const [found] = index === -1 ? [] : this.#unread.splice(index, 1);
      if (found !== undefined) return found;
      if (this.#isClosed) throw new Error(`close before ${type}: ${JSON.stringify(this.#unread)}`);
      await Promise.race([new Promise<void>((resolve) => this.#onMessage.add(resolve)), this.closed]);
      this.#onMessage.clear();
    }
  }

  /** Returns the messages of a type that no test has taken. */
  unread(type: string): Message[] {
    return this.#unread.filter((each) => each["type"] === type);
  }

  /** Answers all calls with the texts that the function returns. */
  answerAll(output: (call: Message) => string): void {
    this.socket.on("message", (data) => {
      const call = JSON.parse((data as Buffer).toString()) as Message;
      if (call["type"] === "tool_call_request") this.answer(call["id"], output(call));
    });
  }

  /** Waits until the gateway has read all that was sent before. */
  async flushed(): Promise<void> {
    const pong = once(this.socket, "pong");
    this.socket.ping();
    await pong;
  }

  [Symbol.dispose](): void {
    this.socket.terminate();
  }
}

/** Returns the status of a rejected connection. */
export async function statusOf(url: string, options: ClientOptions = {}): Promise<number | undefined> {
  const socket = new WebSocket(url, options);
  socket.on("error", () => undefined);
  const [, response] = (await once(socket, "unexpected-response")) as [unknown, { statusCode?: number; destroy(): void }];
  response.destroy();
  socket.terminate();
  return response.statusCode;
}
