import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import { connect, createServer, type Socket } from "node:net";
import { randomInt } from "node:crypto";
import { once } from "node:events";
import { setTimeout as delay } from "node:timers/promises";

const LISTEN = "0A";

/** Returns the number of connections that the listener at `127.0.0.1:PORT` holds, from /proc/net/tcp (proc_net(5)). */
export function countSockets(address: string): number {
  const port = Number(address.split(":").at(-1)).toString(16).toUpperCase().padStart(4, "0");
  const lines = readFileSync("/proc/net/tcp", "latin1").trim().split("\n").slice(1);
  return lines.filter((line) => {
    const [, local = "", , state, , , , , , inode] = line.trim().split(/\s+/);
    // A connection that is closed, and only remembered, has no file.
    return local.endsWith(`:${port}`) && state !== LISTEN && inode !== "0";
  }).length;
}

export function countListeningSockets(pid: number): number {
  const lines = ["tcp", "tcp6"].flatMap((table) => readFileSync(`/proc/${pid}/net/${table}`, "latin1").trim().split("\n"));
  const listening = lines.map((line) => line.trim().split(/\s+/)).filter(([, , , state]) => state === LISTEN);
  const inodes = new Set(listening.map((columns) => `socket:[${columns[9]}]`));
  return readdirSync(`/proc/${pid}/fd`).filter((name) => inodes.has(linkTarget(`/proc/${pid}/fd/${name}`))).length;
}

/** Returns an empty string if the file has been closed meanwhile. */
function linkTarget(path: string): string {
  try {
    return readlinkSync(path);
  } catch {
    return "";
  }
}

/** Polls until the listener holds at most this many connections, since there is no event for it. The test's own time limit applies. */
export async function waitForSockets(address: string, count: number): Promise<void> {
  while (countSockets(address) > count) await delay(10);
}

/** Opens a client that sends this and then reads nothing: the response fills the buffers of the operating system, and stays there. */
export async function openUnread(origin: string, bytes: string): Promise<Socket & Disposable> {
  const { hostname, port } = new URL(origin);
  const socket = connect(Number(port), hostname).pause();
  socket.on("error", () => undefined);
  await once(socket, "connect");
  socket.write(bytes);
  return Object.assign(socket, { [Symbol.dispose]: () => void socket.destroy() });
}

/** Returns a port that nothing listens on. Linux chooses ports for connections and for port 0 from a higher range, so none of them takes it. */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = randomInt(12_000, 32_000);
    const server = createServer().listen(port, "127.0.0.1");
    const isFree = await once(server, "listening").then(
      () => true,
      () => false,
    );
    if (!isFree) continue;
    server.close();
    await once(server, "close");
    return port;
  }
}
