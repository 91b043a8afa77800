import { EventEmitter } from "node:events";
import { describe, expect, it } from "vitest";
import { waitForSignal } from "../../src/shutdown.ts";

/** A process that is sent signals. */
function signalled(): { send: (signal: NodeJS.Signals) => void; first: Promise<NodeJS.Signals>; exitCodes: number[] } {
  const source = new EventEmitter();
  const exitCodes: number[] = [];
  const first = waitForSignal(source, (exitCode) => exitCodes.push(exitCode));
  return { send: (signal) => source.emit(signal, signal), first, exitCodes };
}

describe("waitForSignal", () => {
  it.each(["SIGTERM", "SIGINT"] as const)("tells of the first %s and ends nothing by itself", async (signal) => {
    const { send, first, exitCodes } = signalled();
    send(signal);
    expect(await first).toBe(signal);
    expect(exitCodes).toEqual([]);
  });

  it.each([
    ["SIGTERM", "SIGTERM", 143],
    ["SIGTERM", "SIGINT", 130],
    ["SIGINT", "SIGINT", 130],
    ["SIGINT", "SIGTERM", 143],
  ] as const)("ends at once when %s is followed by %s, with exit code %i", async (one, another, exitCode) => {
    const { send, first, exitCodes } = signalled();
    send(one);
    send(another);
    expect(exitCodes).toEqual([exitCode]);
    expect(await first).toBe(one);
  });

  it("takes no notice of other signals", async () => {
    const { send, first, exitCodes } = signalled();
    send("SIGHUP");
    send("SIGUSR2");
    send("SIGTERM");
    expect(await first).toBe("SIGTERM");
    expect(exitCodes).toEqual([]);
  });
});
