import { isJsonObject, type JsonObject } from "../manifest.ts";
import { type Format, numbersIn, objectsIn, parseArgs, piecesOf, textOrNone, type ToolCall } from "./format.ts";

/** Chat Completions of OpenAI, which most other providers and local models have too. */
export const OPENAI: Format = {
  name: "openai",
  path: "/v1/chat/completions",
  keepAlive: ": keep-alive\n\n",

  runnerTools: (body) => objectsIn(body["tools"]).map((tool) => nameOf(tool[String(tool["type"])])),

  prepare(body, messages, tools, isLater) {
    // `stream_options` is an error without a stream.
    const { stream_options: _, tool_choice: choice, ...rest } = body;
    const managed = tools.map(({ inputSchema: parameters, ...named }) => ({ type: "function", function: { ...named, parameters } }));
    // A choice that forces a call would force one in each round.
    const toolChoice = choice === undefined ? {} : { tool_choice: isLater && choice !== "none" ? "auto" : choice };
    return { ...rest, ...toolChoice, messages, stream: false, tools: [...objectsIn(body["tools"]), ...managed] };
  },

  read(response) {
    const [choice] = objectsIn(response["choices"]);
    const message = choice?.["message"];
    if (!isJsonObject(message)) return undefined;
    return { message, calls: callsOf(message), usage: numbersIn(response["usage"]) };
  },

  withCalls(message, calls) {
    const written = objectsIn(message["tool_calls"]);
    return { ...message, tool_calls: calls.map(({ id, args }, index) => ({ ...written[index], id, ...called(written[index], args) })) };
  },

  results: (results) => results.map(({ call, text }) => ({ role: "tool", tool_call_id: call.id, content: text })),

  identity(message) {
    const calls = callsOf(message).map(({ id }) => id);
    return JSON.stringify([message["role"], message["name"], textOf(message["content"]).trim(), calls, message["tool_call_id"]]);
  },

  withUsage: (response, total) => ({ ...response, usage: { ...(response["usage"] as JsonObject | undefined), ...total } }),

  *events(response, body) {
    const { choices, usage, object: _, ...rest } = response;
    const { id, created, model } = rest;
    const [{ message = {}, finish_reason: finish = "stop", ...facts } = {}] = objectsIn(choices);
    const chunk = (delta: JsonObject, ofChoice: JsonObject = {}, others: JsonObject = {}): string =>
      event({
        ...others,
        id,
        created,
        model,
        object: "chat.completion.chunk",
        choices: [{ index: 0, delta, finish_reason: null, ...ofChoice }],
      });
    const { content, tool_calls: calls, role = "assistant", ...others } = message as JsonObject;
    // All that is not repeated is in the first chunk.
    yield chunk({ role, content: "", ...others }, facts, rest);
    for (const piece of piecesOf(textOf(content))) yield chunk({ content: piece });
    for (const [index, call] of objectsIn(calls).entries()) yield chunk({ tool_calls: [{ index, ...call }] });
    yield chunk({}, { finish_reason: finish });
    const options = body["stream_options"];
    if (isJsonObject(options) && options["include_usage"] === true)
      yield event({ id, created, model, object: "chat.completion.chunk", choices: [], usage });
    yield "data: [DONE]\n\n";
  },

  error: (status, message) => ({
    error: { message, type: status < 500 ? "invalid_request_error" : "server_error", param: null, code: null },
  }),
  errorEvent: event,
};

function event(value: JsonObject): string {
  return `data: ${JSON.stringify(value)}\n\n`;
}

function nameOf(value: unknown): string {
  return isJsonObject(value) ? textOrNone(value["name"]) : "";
}

function callsOf(message: JsonObject): ToolCall[] {
  return objectsIn(message["tool_calls"]).map((call) => {
    const custom = call["custom"];
    const { name, arguments: args } = (custom ?? call["function"] ?? {}) as JsonObject;
    return { id: textOrNone(call["id"]), name: textOrNone(name), args: isJsonObject(custom) ? custom["input"] : parseArgs(args) };
  });
}

/** The members of a call that is sent to the model again. Some providers fail if they cannot read the arguments. */
function called(call: JsonObject = {}, args: unknown): JsonObject {
  if (isJsonObject(args) || !isJsonObject(call["function"])) return {};
  return { function: { ...call["function"], arguments: "{}" } };
}

/** Content is a text, or a list of parts. Parts that are not text count as they are. */
function textOf(content: unknown): string {
  if (typeof content === "string") return content;
  return objectsIn(content)
    .map((part) => (typeof part["text"] === "string" ? part["text"] : JSON.stringify(part)))
    .join("");
}
