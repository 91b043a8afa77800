// The inspector of a Node process, by the Chrome DevTools protocol.

import { once } from "node:events";

export class Inspector {
  readonly #socket: WebSocket;
  #lastId = 0;

  private constructor(socket: WebSocket) {
    this.#socket = socket;
  }

  /** @param port that of `--inspect`, on loopback. */
  static async connect(port: number): Promise<Inspector> {
    const response = await fetch(`http://127.0.0.1:${port}/json/list`);
    const [target] = (await response.json()) as readonly { readonly webSocketDebuggerUrl: string }[];
    const socket = new WebSocket(target?.webSocketDebuggerUrl ?? "");
    await once(socket, "open");
    return new Inspector(socket);
  }

  /** Sends a command, one at a time. Events are ignored. @returns the result. */
  async command(method: string, params: object = {}): Promise<unknown> {
    const id = ++this.#lastId;
    this.#socket.send(JSON.stringify({ id, method, params }));
    for (;;) {
      const [{ data }] = (await once(this.#socket, "message")) as [{ readonly data: string }];
      const message = JSON.parse(data) as { readonly id?: number; readonly result?: unknown };
      if (message.id === id) return message.result;
    }
  }

  close(): void {
    this.#socket.close();
  }
}
