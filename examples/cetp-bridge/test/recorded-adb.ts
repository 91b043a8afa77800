// Answers as adb did when recording.json was made. A command that was not recorded fails.

import { readFileSync } from "node:fs";
import { keyOf, readState, RECORDING, type Run, withIdOf, writeState } from "./recording.ts";

const args = process.argv.slice(2);
const statePath = process.env["RECORDED_STATE"] ?? "";
const key = keyOf(readState(statePath), args);
const run = (JSON.parse(readFileSync(RECORDING, "utf8")) as Run[]).find((each) => keyOf(each.state, each.args) === key);
if (run === undefined) {
  process.stderr.write(`not recorded: ${key}\n`);
  process.exitCode = 99;
} else if (run.end === "hangs") setInterval(() => undefined, 1000);
else if (run.end === "floods") process.stdout.write("x".repeat(8_000_000));
else {
  if (run.after !== undefined) writeState(statePath, run.after);
  process.stderr.write(run.stderr);
  process.stdout.write(Buffer.from(withIdOf(args, run.stdout), "latin1"));
  process.exitCode = run.exitCode;
}
