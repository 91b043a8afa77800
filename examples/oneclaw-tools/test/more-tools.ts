import { once } from "node:events";
import { rmSync, writeFileSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";
import { threadId } from "node:worker_threads";
import type { Context, Tool } from "../src/tool.ts";

const NO_ARGUMENTS = { type: "object" } as const;

/** Each way in which a tool can fail. Those that reject or throw later do so outside of the tool's promise. */
const FAULTS: Readonly<Record<string, () => unknown>> = {
  throw: () => {
    throw new Error("broken on purpose");
  },
  throw_later: () => {
    setImmediate(() => {
      throw new Error("thrown later");
    });
    return forever();
  },
  reject_later: () => {
    void Promise.reject(new Error("rejected later"));
    return forever();
  },
  exit: () => process.exit(7),
  exhaust_memory: () => {
    const held: number[][] = [];
    for (;;) held.push(Array<number>(1_000_000).fill(held.length));
  },
  throw_after_result: () => {
    setImmediate(() => {
      throw new Error("after the result");
    });
    return "done";
  },
  leave_timer: () => {
    setTimeout(() => {
      throw new Error("from a timer");
    }, 50);
    return threadId;
  },
  get_thread: () => threadId,
  return_function: () => ({ kept: 1, lost: () => 2 }),
  return_bigint: () => 2n,
  print: () => {
    console.log("a secret on stdout");
    process.stderr.write("a secret on stderr\n");
    return Object.keys(process.env);
  },
  hang: forever,
  spin: () => {
    for (;;);
  },
};

const misbehave: Tool = {
  name: "misbehave",
  description: "Fail in the given way",
  parameters: { type: "object", properties: { how: { enum: Object.keys(FAULTS) } }, required: ["how"] },
  permissions: [],
  timeoutMs: 30_000,
  execute: ({ how }: { readonly how: string }) => FAULTS[how]?.(),
};

const holdFile: Tool = {
  name: "hold_file",
  description: "Keep a file until the call is aborted",
  parameters: NO_ARGUMENTS,
  permissions: [],
  timeoutMs: 3_600_000,
  async execute(_args: object, { settings, signal }: Context): Promise<void> {
    writeFileSync(`${settings.folder}/held`, "");
    // The signal of a slow thread may have been aborted already.
    if (!signal.aborted) await once(signal, "abort");
    await delay(20);
    rmSync(`${settings.folder}/held`);
  },
};

/** Tools that the tests need, and that are not for users. */
export const tools: readonly Tool[] = [
  misbehave,
  { ...misbehave, name: "misbehave_briefly", timeoutMs: 400 },
  holdFile,
  { ...holdFile, name: "hold_file_briefly", timeoutMs: 300 },
  { ...misbehave, name: "wait", waitsFor: () => "nothing" },
  { ...misbehave, name: "wait_briefly", waitsFor: () => "nothing", timeoutMs: 400 },
  { ...holdFile, name: "wait_with_file", waitsFor: () => "nothing" },
  {
    name: "get_location",
    description: "Get the location of the device",
    parameters: NO_ARGUMENTS,
    permissions: ["ACCESS_FINE_LOCATION"],
    timeoutMs: 60_000,
    execute: () => "52.5, 13.4",
  },
  {
    name: "take_picture",
    description: "Take a picture, and record its place",
    parameters: NO_ARGUMENTS,
    permissions: ["CAMERA", "ACCESS_FINE_LOCATION"],
    timeoutMs: 60_000,
    execute: () => "picture.jpg",
  },
];

function forever(): Promise<void> {
  return delay(2 ** 30, undefined, { ref: false });
}
