// The server's tricks, one per call of the tool `trick`. Each trick gets the id of its call.

import { say, sayLine, writeAll } from "../../chaos/server/process.ts";
import { META } from "../../test/support/modern-client.ts";
import { type Shape, shapeChunks } from "../shapes.ts";

type Id = string | number;
type Arguments = Readonly<Record<string, unknown>>;

const TINY_LINES_AT_ONCE = 1000;
/** Longer than the time in which questions are collected. */
const DONE_PAUSE_MS = 100;

/** @param params those of the call. */
export const TRICKS: Readonly<Record<string, (id: Id, args: Arguments, params: Arguments) => void>> = {
  /** Writes a line of a given shape and length, as a given kind of message. */
  line: (id, { shape, as, bytes }) => {
    writeLine(id, shape as Shape, String(as), Number(bytes));
    if (as !== "result" && as !== "error" && as !== "content") done(id);
  },
  /** Writes many lines in few writes. */
  tiny: (id, { line, count }) => {
    const block = `${String(line)}\n`.repeat(TINY_LINES_AT_ONCE);
    for (let written = 0; written < Number(count); written += TINY_LINES_AT_ONCE) writeAll(1, block);
    done(id);
  },
  /** Sends notifications for subscribers, and notifications for all clients. */
  flood: (id, { uri, count, padding }) => {
    const title = "f".repeat(Number(padding));
    for (let index = 0; index < Number(count); index++) {
      say({ method: "notifications/resources/updated", params: { uri, title } });
      say({ method: "notifications/resources/list_changed", params: { _meta: { title } } });
    }
    done(id);
  },
  /** Writes one line: `before`, `piece` repeated up to the length, and `after`. `OWN` is replaced by the id. */
  repeat: (id, { before, piece, after, bytes }) => {
    const [head = "", tail = ""] = [before, after].map((text) => String(text).replaceAll("OWN", JSON.stringify(id)));
    const text = String(piece);
    const block = text.repeat(10_000);
    writeAll(1, head);
    for (let left = Math.floor(Number(bytes) / text.length); left > 0; left -= 10_000)
      writeAll(1, left < 10_000 ? text.repeat(left) : block);
    writeAll(1, `${tail}\n`);
  },
  /** Sends notifications with the ids of other requests: of calls, of subscriptions, and of none. */
  forge: (id, { count }) => {
    const own = Number(id);
    for (let index = 0; index < Number(count); index++) {
      const near = own - 500 + (index % 1000);
      for (const forged of [near, String(near), near + 0.5, -near]) {
        const meta = { _meta: { [META.subscriptionId]: forged } };
        say({ method: "notifications/tools/list_changed", params: meta });
        say({ method: "notifications/subscriptions/acknowledged", params: { ...meta, notifications: { toolsListChanged: true } } });
        say({ method: "notifications/message", params: { ...meta, level: "emergency", data: "forged" } });
        say({ method: "notifications/resources/updated", params: { ...meta, uri: "file:///forged" } });
      }
      if (near < own - 100) say({ method: "notifications/cancelled", params: { requestId: near } });
    }
    done(id);
  },
  /** Writes questions, and ignores the answers. With `isDone`, responds soon. */
  ask: (id, { lines, isDone }) => {
    for (const line of (lines ?? []) as readonly string[]) sayLine(line);
    if (isDone === true) setTimeout(() => done(id), DONE_PAUSE_MS);
  },
  /** Responds with `input_required` and the given members, and to the answers with their number. With `isEndless`, asks again. */
  input: (id, { members, isEndless }, { inputResponses, requestState }) => {
    const isAnswered = inputResponses !== undefined || requestState !== undefined;
    if (!isAnswered || isEndless === true) {
      return sayLine(`{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":{"resultType":"input_required",${String(members)}}}`);
    }
    const text = `${Object.keys(inputResponses ?? {}).length} answers`;
    say({ id, result: { resultType: "complete", content: [{ type: "text", text }] } });
  },
  /** Writes a given line, then the response. */
  say: (id, { line }) => {
    sayLine(String(line).replaceAll("OWN", JSON.stringify(id)));
    done(id);
  },
};

function writeLine(id: Id, shape: Shape, as: string, bytes: number): void {
  const [head, tail] = frame(id, as);
  writeAll(1, head);
  // A line feed in a value would end the line.
  for (const chunk of shapeChunks(shape, bytes)) writeAll(1, chunk.replaceAll("\n", "\r"));
  writeAll(1, `${tail}\n`);
}

function frame(id: Id, as: string): readonly [head: string, tail: string] {
  const idText = JSON.stringify(id);
  switch (as) {
    case "result":
      return [`{"jsonrpc":"2.0","id":${idText},"result":{"content":[{"type":"text","text":"x"}],"structuredContent":{"value":`, "}}}"];
    case "content":
      return [`{"jsonrpc":"2.0","id":${idText},"result":{"content":`, "}}"];
    case "error":
      return [`{"jsonrpc":"2.0","id":${idText},"error":{"code":-32000,"message":"no","data":`, "}}"];
    case "notification":
      return ['{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"emergency","data":', "}}"];
    case "progress":
      // The sidecar uses the id of the call as its progress token.
      return [`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":${idText},"progress":1,"message":`, "}}"];
    case "request":
      return ['{"jsonrpc":"2.0","id":"r","method":"roots/list","params":{"value":', "}}"];
    case "batch":
      return ['[{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"emergency","data":1}},', "]"];
    default:
      // Noise: not a JSON-RPC message, or not JSON.
      return as === "text" ? ["noise ", ""] : ["", ""];
  }
}

function done(id: Id): void {
  say({ id, result: { content: [{ type: "text", text: "done" }] } });
}
