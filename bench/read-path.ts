import { once } from "node:events";
import { get, type IncomingMessage } from "node:http";
import type { Endpoint } from "./load-contract.ts";

/** Reads a path of a target, and discards the body. Fails unless the status is 200. */
export async function readPath({ port, token }: Pick<Endpoint, "port" | "token">, path: string): Promise<void> {
  const request = get({ host: "127.0.0.1", port, path, headers: token === null ? {} : { Authorization: `Bearer ${token}` } });
  const [response] = (await once(request, "response")) as [IncomingMessage];
  response.resume();
  await once(response, "end");
  if (response.statusCode !== 200) throw new Error(`${path} answered ${response.statusCode}`);
}
