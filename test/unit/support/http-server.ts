import { once } from "node:events";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { promisify } from "node:util";

/** A server whose requests are answered by `handle`. */
export async function listen(handle: RequestListener): Promise<AsyncDisposable & { readonly url: string }> {
  const server = createServer(handle);
  await once(server.listen(0, "127.0.0.1"), "listening");
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    async [Symbol.asyncDispose]() {
      await promisify(server.close.bind(server))();
    },
  };
}
