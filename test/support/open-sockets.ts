import { readdirSync, readlinkSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { once } from "node:events";
import { setTimeout as delay } from "node:timers/promises";

/** Returns the number of sockets that a process holds. */
export function countSockets(pid: number): number {
  return readdirSync(`/proc/${pid}/fd`).filter((fd) => linkTarget(`/proc/${pid}/fd/${fd}`).startsWith("socket:")).length;
}

/** Polls until a process holds at most this many sockets, since there is no event for it. The test's own time limit applies. */
export async function waitForSockets(pid: number, count: number): Promise<void> {
  while (countSockets(pid) > count) await delay(10);
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

function linkTarget(path: string): string {
  try {
    return readlinkSync(path);
  } catch {
    // Closed in the meantime.
    return "";
  }
}
