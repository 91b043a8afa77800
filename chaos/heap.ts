// The heap of a wrapper after a forced collection, read through the inspector of its Node.

/** A command of the Chrome DevTools protocol, and the id of its answer. */
interface Answer {
  readonly id?: number;
  readonly result?: { readonly usedSize?: number };
}

/** @param port the port of the inspector on loopback. @returns the bytes of the heap that are in use after a collection. */
export async function usedHeapBytes(port: number): Promise<number> {
  const targets = (await (await fetch(`http://127.0.0.1:${port}/json/list`)).json()) as readonly {
    readonly webSocketDebuggerUrl: string;
  }[];
  const socket = new WebSocket(targets[0]?.webSocketDebuggerUrl ?? "");
  const used = Promise.withResolvers<number>();
  const commands = ["HeapProfiler.collectGarbage", "Runtime.getHeapUsage"];
  const send = (id: number): void => socket.send(JSON.stringify({ id, method: commands[id] }));
  socket.addEventListener("error", () => used.reject(new Error("the inspector does not answer")));
  socket.addEventListener("open", () => send(0));
  socket.addEventListener("message", ({ data }) => {
    const { id, result } = JSON.parse(String(data)) as Answer;
    if (id === 0) send(1);
    else if (id === 1) used.resolve(result?.usedSize ?? Number.NaN);
  });
  try {
    return await used.promise;
  } finally {
    socket.close();
  }
}
