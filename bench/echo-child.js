// The stdio MCP server of all targets. It must not limit a run, so it has no
// dependencies, reads many lines per chunk, and writes once per turn of the
// event loop.

/** Size above which a result is kept as bytes, so that it is encoded only once. */
const LARGE_RESULT_BYTES = 16_384;

const TOOLS = ["echo", "progress"].map((name) => ({ name, inputSchema: { type: "object" }, annotations: { readOnlyHint: true } }));

/** JSON of results by size; large ones as bytes. */
const resultsBySize = new Map();
/** Output to write before `pendingText`. */
let pieces = [];
let pendingText = "";
let flushScheduled = false;
let partialLine = "";

process.stdin.setEncoding("utf8");
process.stdin.on("data", (chunk) => {
  const text = partialLine + chunk;
  let start = 0;
  for (let end = text.indexOf("\n"); end !== -1; end = text.indexOf("\n", start)) {
    if (end > start) answer(JSON.parse(text.slice(start, end)));
    start = end + 1;
  }
  partialLine = text.slice(start);
});
process.stdin.on("end", () => {
  flush();
  process.exit(0);
});

function answer(message) {
  if (message.id === undefined || message.method === undefined) return;
  switch (message.method) {
    case "initialize":
      return reply(message.id, JSON.stringify(initializeResult(message.params)));
    case "ping":
      return reply(message.id, "{}");
    case "tools/list":
      return reply(message.id, JSON.stringify({ tools: TOOLS }));
    case "tools/call":
      return callTool(message.id, message.params ?? {});
    default:
      return fail(message.id, -32601, "method not found");
  }
}

function callTool(id, { name, arguments: args = {}, _meta: meta = {} }) {
  switch (name) {
    case "echo":
      return reply(id, echoResult(args));
    case "progress":
      sendProgress(meta.progressToken, args.count ?? 0);
      return reply(id, textResult("done"));
    default:
      return fail(id, -32602, "unknown tool");
  }
}

function sendProgress(progressToken, count) {
  const start = `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":${JSON.stringify(progressToken)},"progress":`;
  for (let progress = 1; progress <= count; progress += 1) {
    pendingText += `${start}${progress},"total":${count},"message":"step ${progress}"}}\n`;
  }
}

function initializeResult(params) {
  return {
    protocolVersion: params?.protocolVersion ?? "2025-11-25",
    capabilities: { tools: {} },
    serverInfo: { name: "echo-child", version: "1.0.0" },
  };
}

function echoResult({ bytes = 0 }) {
  let result = resultsBySize.get(bytes);
  if (result === undefined) {
    const whole = textResult("x".repeat(bytes));
    result = bytes > LARGE_RESULT_BYTES ? Buffer.from(whole) : whole;
    resultsBySize.set(bytes, result);
  }
  return result;
}

function textResult(text) {
  return JSON.stringify({ content: [{ type: "text", text }] });
}

function reply(id, result) {
  pendingText += `{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":`;
  if (typeof result === "string") {
    pendingText += result;
  } else {
    pieces.push(pendingText, result);
    pendingText = "";
  }
  pendingText += "}\n";
  scheduleFlush();
}

function fail(id, code, message) {
  pendingText += `${JSON.stringify({ jsonrpc: "2.0", id, error: { code, message } })}\n`;
  scheduleFlush();
}

function scheduleFlush() {
  if (flushScheduled) return;
  flushScheduled = true;
  setImmediate(flush);
}

function flush() {
  flushScheduled = false;
  if (pendingText === "") return;
  process.stdout.cork();
  for (const piece of pieces) process.stdout.write(piece);
  process.stdout.write(pendingText);
  process.stdout.uncork();
  pieces = [];
  pendingText = "";
}
