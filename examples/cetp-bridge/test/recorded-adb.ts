// Answers as adb did when recording.jsonl was made. A command that was not recorded fails, and makes its test fail: RecordedPhone reads the file `unrecorded`.

import { appendFileSync } from "node:fs";
import { dirname } from "node:path";
import { keyOf, readRecording, readState, withIdOf, writeState } from "./recording.ts";

const folder = dirname(process.env["RECORDED_STATE"] ?? "");
const args = process.argv.slice(2);
const statePath = process.env["RECORDED_STATE"] ?? "";
const key = keyOf(readState(statePath), args);
appendFileSync(`${folder}/commands`, `${args.join(" ")}\n`);
const run = readRecording().find((each) => keyOf(each.state, each.args) === key);
if (run === undefined) {
  appendFileSync(`${folder}/unrecorded`, `${key}\n`);
  process.stderr.write(`not recorded: ${key}\n`);
  process.exitCode = 99;
} else if (run.end === "hangs") setInterval(() => undefined, 1000);
else if (run.end === "floods") process.stdout.write("x".repeat(8_000_000));
else {
  if (run.after !== undefined) writeState(statePath, run.after);
  process.stderr.write(run.stderr);
  process.stdout.write(run.isBinary === true ? Buffer.from(run.stdout, "base64") : withIdOf(args, run.stdout));
  process.exitCode = run.exitCode;
}
