// The implementations of the faults. Each function gets the call that causes its fault.

import { spawn } from "node:child_process";
import { LONG_LINE_BYTES, type ToolFault } from "../contract.ts";
import { announce, answerLine, type Call } from "./answers.ts";
import { recordProcess, say, sayInHalves, sayLine, writeAll } from "./process.ts";

const CRASH_CODE = 7;
const HALF_LINE_PAUSE_MS = 120;
const REQUEST_PAUSE_MS = 30;
/** Longer than the time limits for requests that the sidecars are configured with. */
const LATE_MS = 4500;
const STDERR_LINES = 80_000;
const NOTIFICATIONS = 5000;
const GRANDCHILD_LIFE_SECONDS = 3600;

const GARBAGE: readonly (string | Buffer)[] = [
  "Server listening, have a nice day!\n",
  '{"jsonrpc":"2.0","id":\n',
  "[]\n",
  "17\n",
  "null\n",
  '{"level":"info","msg":"a log line"}\n',
  '{"jsonrpc":"2.0"}\n',
  "\n\r\n   \n",
  Buffer.from([0xff, 0xfe, 0x00, 0x80, 0x0a]),
  "\u001B[31mred\u001B[0m\n",
];

export const FAULTS: Readonly<Record<ToolFault, (call: Call) => void>> = {
  exit_cleanly: () => process.exit(0),
  crash: () => process.exit(CRASH_CODE),
  last_words: (call) => {
    sayLine(answerLine(call));
    process.exit(CRASH_CODE);
  },
  garbage: (call) => {
    for (const piece of GARBAGE) writeAll(1, piece);
    sayLine(answerLine(call));
  },
  half_line_and_crash: (call) => {
    const bytes = Buffer.from(answerLine(call));
    writeAll(1, bytes.subarray(0, bytes.length >> 1));
    process.exit(CRASH_CODE);
  },
  long_answer: (call) => {
    sayLine(answerLine(call, "x".repeat(LONG_LINE_BYTES)));
  },
  long_noise: (call) => {
    writeAll(1, Buffer.alloc(LONG_LINE_BYTES, "noise "));
    writeAll(1, "\n");
    sayLine(answerLine(call));
  },
  split_utf8: (call) => {
    const bytes = Buffer.from(answerLine(call));
    // The cut is after the first byte of a multi-byte character.
    const cutAt = bytes.findIndex((byte) => byte >= 0xc0) + 1;
    sayInHalves(bytes, cutAt, HALF_LINE_PAUSE_MS);
  },
  stderr_flood: (call) => {
    writeAll(2, `${"stderr ".repeat(14)}\n`.repeat(STDERR_LINES));
    sayLine(answerLine(call));
  },
  colliding_request: (call) => {
    say({ id: call.id, method: "roots/list" });
    setTimeout(() => sayLine(answerLine(call)), REQUEST_PAUSE_MS);
  },
  answer_twice: (call) => {
    sayLine(answerLine(call));
    say({ id: call.id, result: { content: [{ type: "text", text: "a second answer" }] } });
  },
  answer_unknown: (call) => {
    for (const id of [-1, 0, 2 ** 40, 2 ** 53, 1.5, "unknown", "", `0${String(call.id)}`, null]) {
      say({ id, result: { content: [{ type: "text", text: "a response without a request" }] } });
    }
    sayLine(answerLine(call));
  },
  late_answer: (call) => {
    setTimeout(() => sayLine(answerLine(call)), LATE_MS);
  },
  hang: () => undefined,
  notification_flood: (call) => {
    for (let index = 0; index < NOTIFICATIONS; index++) {
      if (index % 2 === 0) say({ method: "notifications/progress", params: { progressToken: `unknown-${index}`, progress: index } });
      else say({ method: "notifications/message", params: { level: "info", data: `line ${index}` } });
    }
    announce();
    sayLine(answerLine(call));
  },
  grandchild: (call) => {
    const { pid } = spawn("sleep", [String(GRANDCHILD_LIFE_SECONDS)], { stdio: "ignore" });
    if (pid !== undefined) recordProcess(pid, "grandchild");
    sayLine(answerLine(call));
  },
};
