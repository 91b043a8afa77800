// A thread that reads a path of a target when it gets a message. In the thread of the load, this would slow the load down by a few percent.

import { once } from "node:events";
import { get, type IncomingMessage } from "node:http";
import { parentPort, workerData } from "node:worker_threads";
import type { Side } from "./load-contract.ts";

const { port, token, readPath } = workerData as Side;

parentPort?.on("message", () => void read());

async function read(): Promise<void> {
  const request = get({ host: "127.0.0.1", port, path: readPath, headers: { Authorization: `Bearer ${token}` } });
  const [response] = (await once(request, "response")) as [IncomingMessage];
  response.resume();
  await once(response, "end");
  if (response.statusCode !== 200) throw new Error(`${readPath} answered ${response.statusCode}`);
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread, not a window
  parentPort?.postMessage("done");
}
