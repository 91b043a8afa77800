import { isJsonObject, type JsonObject } from "../manifest.ts";
import { type Format, numbersIn, objectsIn, parseArgs, piecesOf, textOrNone, type ToolCall } from "./format.ts";

/** Messages of Anthropic. */
export const ANTHROPIC: Format = {
  name: "anthropic",
  path: "/v1/messages",
  keepAlive: event({ type: "ping" }),

  runnerTools: (body) => objectsIn(body["tools"]).map(({ name }) => textOrNone(name)),

  prepare(body, messages, tools, isLater) {
    const { tool_choice: choice, ...rest } = body;
    const managed = tools.map(({ inputSchema: input_schema, ...named }) => ({ ...named, input_schema }));
    const isForced = isJsonObject(choice) && (choice["type"] === "any" || choice["type"] === "tool");
    // A choice that forces a call would force one in each round.
    const { name: _, ...others } = isJsonObject(choice) ? choice : {};
    const toolChoice = choice === undefined ? {} : { tool_choice: isLater && isForced ? { ...others, type: "auto" } : choice };
    return { ...rest, ...toolChoice, messages, stream: false, tools: [...objectsIn(body["tools"]), ...managed] };
  },

  read(response) {
    const { role = "assistant", content } = response;
    if (!Array.isArray(content)) return undefined;
    const message = { role, content: content as unknown[] };
    return { message, calls: callsOf(message), usage: numbersIn(response["usage"]) };
  },

  withCalls(message, calls) {
    const left = [...calls];
    const content = objectsIn(message["content"]).flatMap((block) => {
      if (block["type"] !== "tool_use") return [block];
      const call = left.shift();
      return call === undefined ? [] : [{ ...block, id: call.id, input: isJsonObject(call.args) ? call.args : {} }];
    });
    return { ...message, content };
  },

  results: (results) => [
    {
      role: "user",
      content: results.map(({ call, text, isError }) => ({ type: "tool_result", tool_use_id: call.id, content: text, is_error: isError })),
    },
  ],

  identity: ({ role, content }) => JSON.stringify([role, typeof content === "string" ? content.trim() : blocksOf(content)]),

  withUsage: (response, total) => ({ ...response, usage: { ...(response["usage"] as JsonObject | undefined), ...total } }),

  *events(response) {
    const { content, stop_reason, stop_sequence = null, stop_details, container, usage, ...rest } = response;
    const started = { ...rest, content: [], stop_reason: null, stop_sequence: null, usage };
    yield event({ type: "message_start", message: started });
    for (const [index, block] of objectsIn(content).entries()) {
      const [start, deltas] = splitBlock(block);
      yield event({ type: "content_block_start", index, content_block: start });
      for (const delta of deltas) yield event({ type: "content_block_delta", index, delta });
      yield event({ type: "content_block_stop", index });
    }
    yield event({ type: "message_delta", delta: { stop_reason, stop_sequence, stop_details, container }, usage });
    yield event({ type: "message_stop" });
  },

  error: (status, message) => ({ type: "error", error: { type: status < 500 ? "invalid_request_error" : "api_error", message } }),
  errorEvent: (error) => event({ type: "error", ...error }),
};

function event(value: JsonObject): string {
  return `event: ${String(value["type"])}\ndata: ${JSON.stringify(value)}\n\n`;
}

function callsOf(message: JsonObject): ToolCall[] {
  return objectsIn(message["content"])
    .filter(({ type }) => type === "tool_use")
    .map(({ id, name, input }) => ({ id: textOrNone(id), name: textOrNone(name), args: parseArgs(input) }));
}

/** Returns the parts of blocks that a runner sends back unchanged. Thinking may be left out, and marks of caches move. */
function blocksOf(content: unknown): unknown {
  const blocks = objectsIn(content).filter(({ type }) => type !== "thinking" && type !== "redacted_thinking");
  if (blocks.every(({ type }) => type === "text"))
    return blocks
      .map(({ text }) => String(text))
      .join("")
      .trim();
  return blocks.map(({ type, text, id, tool_use_id: resultOf, source, content: result }) => [type, text, id, resultOf, source, result]);
}

/** Returns the beginning of a block, and the deltas that complete it. A block of an unknown type is complete from the beginning. */
function splitBlock(block: JsonObject): [start: JsonObject, deltas: JsonObject[]] {
  const { text, thinking, signature, input } = block;
  if (block["type"] === "text")
    return [{ ...block, text: "" }, piecesOf(String(text)).map((piece) => ({ type: "text_delta", text: piece }))];
  if (block["type"] === "tool_use") return [{ ...block, input: {} }, [{ type: "input_json_delta", partial_json: JSON.stringify(input) }]];
  if (block["type"] !== "thinking") return [block, []];
  const deltas = [{ type: "thinking_delta", thinking }, ...(signature === undefined ? [] : [{ type: "signature_delta", signature }])];
  return [{ ...block, thinking: "", signature: "" }, deltas];
}
