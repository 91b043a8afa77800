import type { McpClient } from "./mcp-client.ts";

/** A client of either era. */
type Caller = Pick<McpClient, "toolText">;

/** Tools of the fixture by which tests look and act. */
const OWN_TOOLS = ["echo", "hanging", "mute", "noise", "notifications", "release", "seen", "stop_reading", "where"];

/** Returns flags for calls that time out soon, except those of the test itself: a busy machine may need longer for them. */
export function timeoutFlags(timeoutMs: number, ownTools: readonly string[] = OWN_TOOLS): string[] {
  const ownTimes = ownTools.map((name) => `${name}=600000`).join(",");
  return ["--request-timeout-ms", String(timeoutMs), "--tool-timeouts-ms", ownTimes];
}

/** Waits until `count` calls of the fixture's tool `hang` have reached the server. @returns their ids at the server. */
export async function waitForHanging(client: Caller, count: number): Promise<number[]> {
  for (;;) {
    const wireIds = JSON.parse(await client.toolText("hanging")) as number[];
    if (wireIds.length >= count) return wireIds;
  }
}

/** Returns the methods that this generation of the fixture has received, in order; a cancellation with the id that it names. */
export async function readSeen(client: Caller): Promise<string[]> {
  return JSON.parse(await client.toolText("seen")) as string[];
}

export async function waitForSeen(client: Caller, method: string): Promise<void> {
  while (!(await readSeen(client)).includes(method));
}

export async function readWhere(client: Caller): Promise<{ readonly pid: number; readonly grandchildPid?: number }> {
  return JSON.parse(await client.toolText("where")) as { pid: number; grandchildPid?: number };
}
