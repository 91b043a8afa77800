import { once } from "node:events";

export interface Inspector {
  /** Sends a command, one at a time. @returns its result. */
  readonly command: (method: string, params?: object) => Promise<unknown>;
  readonly close: () => void;
}

export async function connectInspector(port: number): Promise<Inspector> {
  const response = await fetch(`http://127.0.0.1:${port}/json/list`);
  const [target] = (await response.json()) as readonly { readonly webSocketDebuggerUrl: string }[];
  const socket = new WebSocket(target?.webSocketDebuggerUrl ?? "");
  await once(socket, "open");
  const closed = once(socket, "close").then(() => Promise.reject(new Error("the process has closed its inspector")));
  // Nobody may be waiting.
  closed.catch(() => undefined);
  let id = 0;
  const command = async (method: string, params: object = {}): Promise<unknown> => {
    socket.send(JSON.stringify({ id: ++id, method, params }));
    for (;;) {
      const [{ data }] = (await Promise.race([once(socket, "message"), closed])) as [{ readonly data: string }];
      const message = JSON.parse(data) as { readonly id?: number; readonly result?: unknown };
      if (message.id === id) return message.result;
    }
  };
  return { command, close: () => socket.close() };
}
