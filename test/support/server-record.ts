import type { JsonRpcMessage } from "./json-rpc.ts";

/** Any client of the fixture. */
interface Caller {
  toolText(name: string): Promise<string>;
}

export async function receivedInitializes(client: Caller): Promise<unknown[]> {
  const lines = JSON.parse(await client.toolText("lines")) as string[];
  const messages = lines.map((line) => JSON.parse(line) as JsonRpcMessage);
  return messages.filter(({ method }) => method === "initialize").map(({ params }) => params);
}
