import { randomUUID } from "node:crypto";
import { readFileSync, renameSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import type { DeviceState } from "../stand-in/apps.ts";

/** All that the answers of the stand-in depend on. */
export interface RecordedState extends DeviceState {
  readonly isPluggedIn: boolean;
}

/** One run of adb. */
export interface Run {
  readonly state: RecordedState;
  readonly args: readonly string[];
  readonly stdout: string;
  /** True if stdout is in base64. */
  readonly isBinary?: boolean;
  readonly stderr: string;
  readonly exitCode: number;
  /** It was ended by the bridge: after a time, or while it wrote without end. */
  readonly end?: "hangs" | "floods";
  /** The state that the command has left. */
  readonly after?: RecordedState;
}

export const RECORDING = fileURLToPath(new URL("recording.jsonl", import.meta.url));
const UUID = /[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/g;

export function readState(path: string): RecordedState {
  return JSON.parse(readFileSync(path, "utf8")) as RecordedState;
}

/** Replaces the file as a whole, since programs read it at any time. */
export function writeState(path: string, state: RecordedState): void {
  const other = `${path}.${randomUUID()}`;
  writeFileSync(other, JSON.stringify(state));
  renameSync(other, path);
}

/** Reads the recording, which has a run in each line. */
export function readRecording(): Run[] {
  const lines = readFileSync(RECORDING, "utf8").trim().split("\n");
  return lines.map((line) => JSON.parse(line) as Run);
}

/** Two runs with the same key have the same outcome. */
export function keyOf(state: RecordedState, args: readonly string[]): string {
  const command = args.map((each) => each.replace(/^[\d.]+:\d+$/, "DEVICE").replaceAll(UUID, "UUID"));
  // The server of adb can be told to connect at any time, and the bridge does not use the outcome.
  if (!["shell", "exec-out"].includes(args[0] ?? "")) return JSON.stringify(command);
  const installed = Object.entries(state.installed).toSorted(([one], [other]) => (one < other ? -1 : 1));
  const ofNotes = [state.isNotesStarted, state.isNotesAuthorized];
  // What is installed does not depend on the rest.
  const rest = [state.isPluggedIn, ...(/^(?:content|am) .*\.notes\b/.test(args[1] ?? "") ? ofNotes : [])];
  return JSON.stringify([installed, rest, command]);
}

/** Puts the id of this run in the place of that of the recorded one. */
export function withIdOf(args: readonly string[], text: string): string {
  const [id] = args.join(" ").match(UUID) ?? [];
  return id === undefined ? text : text.replaceAll(UUID, id);
}
