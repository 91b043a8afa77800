import { readdirSync, readFileSync, readlinkSync } from "node:fs";

/** Returns the number of sockets on which a process listens (proc(5): state 0A is LISTEN). */
export function countListeningSockets(pid: number): number {
  const listening = new Set(
    ["tcp", "tcp6"].flatMap((table) =>
      readFileSync(`/proc/${pid}/net/${table}`, "utf8")
        .trim()
        .split("\n")
        .map((line) => line.trim().split(/\s+/))
        .filter((columns) => columns[3] === "0A")
        .map((columns) => `socket:[${columns[9]}]`),
    ),
  );
  return readdirSync(`/proc/${pid}/fd`).filter((name) => listening.has(linkTarget(`/proc/${pid}/fd/${name}`))).length;
}

/** Returns an empty string if the file has been closed meanwhile. */
function linkTarget(path: string): string {
  try {
    return readlinkSync(path);
  } catch {
    return "";
  }
}
