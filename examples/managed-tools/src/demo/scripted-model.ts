// A model that follows a script, in both wire formats. It calls the tools that it is told to call.

import { serve, type ServerType } from "@hono/node-server";
import { Hono } from "hono";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import type { JsonObject } from "../manifest.ts";
import { objectsIn } from "../mediate/format.ts";

export interface ScriptedReply {
  readonly text?: string;
  readonly calls?: readonly { readonly name: string; readonly args: unknown }[];
}

/** Returns what the model says. @param count the number of requests before this one. */
export type Script = (body: JsonObject, count: number) => ScriptedReply | Response | Promise<ScriptedReply | Response>;

export interface ScriptedModel extends AsyncDisposable {
  /** Without `/v1`. */
  readonly url: string;
  /** The bodies of all requests, in order. */
  readonly requests: readonly JsonObject[];
  readonly headers: readonly Headers[];
}

export async function startScriptedModel(script: Script): Promise<ScriptedModel> {
  const requests: JsonObject[] = [];
  const headers: Headers[] = [];
  const app = new Hono();
  for (const [path, format] of [
    ["/v1/chat/completions", openaiResponse],
    ["/v1/messages", anthropicResponse],
  ] as const) {
    app.post(path, async (context) => {
      const body = await context.req.json<JsonObject>();
      headers.push(context.req.raw.headers);
      const count = requests.push(body) - 1;
      const said = await script(body, count);
      return said instanceof Response ? said : context.json(format(said, body, count));
    });
  }
  app.get("/v1/models", (context) => context.json({ object: "list", data: [{ id: "scripted", object: "model" }] }));
  const server: ServerType = serve({ fetch: app.fetch, hostname: "127.0.0.1", port: 0 });
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests,
    headers,
    async [Symbol.asyncDispose]() {
      const closed = once(server, "close");
      server.close();
      if ("closeAllConnections" in server) server.closeAllConnections();
      await closed;
    },
  };
}

/** Returns the texts of the results in a conversation, in either format. */
export function resultsIn(body: JsonObject): string[] {
  return objectsIn(body["messages"]).flatMap(({ role, content }) => {
    if (role === "tool") return [String(content)];
    return objectsIn(content).flatMap((block) => (block["type"] === "tool_result" ? [String(block["content"])] : []));
  });
}

function openaiResponse({ text, calls = [] }: ScriptedReply, { model }: JsonObject, count: number): JsonObject {
  const tool_calls = calls.map(({ name, args }, index) => ({
    id: `call_${count}_${index}_${unique()}`,
    type: "function",
    function: { name, arguments: typeof args === "string" ? args : JSON.stringify(args) },
  }));
  const message = { role: "assistant", content: text ?? null, ...(calls.length === 0 ? {} : { tool_calls }) };
  return {
    id: `chatcmpl-${count}`,
    object: "chat.completion",
    created: 1,
    model: model ?? "scripted",
    choices: [{ index: 0, message, finish_reason: calls.length === 0 ? "stop" : "tool_calls" }],
    usage: { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 },
  };
}

function anthropicResponse({ text, calls = [] }: ScriptedReply, { model }: JsonObject, count: number): JsonObject {
  const uses = calls.map(({ name, args }, index) => ({ type: "tool_use", id: `toolu_${count}_${index}_${unique()}`, name, input: args }));
  return {
    id: `msg_${count}`,
    type: "message",
    role: "assistant",
    model: model ?? "scripted",
    content: [...(text === undefined ? [] : [{ type: "text", text }]), ...uses],
    stop_reason: calls.length === 0 ? "end_turn" : "tool_use",
    stop_sequence: null,
    usage: { input_tokens: 10, output_tokens: 5 },
  };
}

/** Ids of calls are never repeated, as with a real provider. */
function unique(): string {
  return Math.random().toString(36).slice(2);
}
