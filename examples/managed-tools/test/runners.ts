import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";
import type { JsonObject } from "../src/manifest.ts";
import { objectsIn } from "../src/mediate/format.ts";
import type { Bench } from "./bench.ts";

/** The outcome of a turn as a runner sees it. */
export interface Seen {
  readonly text: string;
  /** The runner's own tools that it shall call. */
  readonly calls: readonly string[];
  readonly totalTokens: number;
}

/** A runner with a tool of its own, which keeps its conversation. */
export abstract class Runner {
  readonly messages: JsonObject[] = [];
  protected readonly url: string;
  protected readonly isStreaming: boolean;
  /** The clients retry twice by default. */
  maxRetries = 0;

  constructor({ mediator }: Bench, isStreaming: boolean, agent = "analyst") {
    [this.url, this.isStreaming] = [`${mediator.url}/${agent}`, isStreaming];
  }

  async say(text: string): Promise<Seen> {
    this.messages.push({ role: "user", content: text });
    return this.ask();
  }

  /** Sends the conversation. */
  abstract ask(): Promise<Seen>;
  /** Answers the calls of its last response. */
  abstract answer(result: string): Promise<Seen>;
}

export class OpenAiRunner extends Runner {
  async ask(): Promise<Seen> {
    const client = new OpenAI({ baseURL: `${this.url}/v1`, apiKey: "runner-key", maxRetries: this.maxRetries });
    const request = {
      model: "scripted",
      messages: this.messages as unknown as OpenAI.ChatCompletionMessageParam[],
      tools: [{ type: "function" as const, function: { name: "native", parameters: { type: "object" } } }],
    };
    const completion = this.isStreaming
      ? await client.chat.completions.stream({ ...request, stream_options: { include_usage: true } }).finalChatCompletion()
      : await client.chat.completions.create(request);
    const message = completion.choices[0]?.message;
    this.messages.push({
      role: "assistant",
      content: message?.content ?? null,
      ...(message?.tool_calls?.length ? { tool_calls: message.tool_calls } : {}),
    });
    const calls = (message?.tool_calls ?? []).map((call) => (call.type === "function" ? call.function.name : call.type));
    return { text: message?.content ?? "", calls, totalTokens: completion.usage?.total_tokens ?? 0 };
  }

  answer(result: string): Promise<Seen> {
    for (const { id } of objectsIn(this.messages.at(-1)?.["tool_calls"]))
      this.messages.push({ role: "tool", tool_call_id: id, content: result });
    return this.ask();
  }
}

export class AnthropicRunner extends Runner {
  async ask(): Promise<Seen> {
    const client = new Anthropic({ baseURL: this.url, apiKey: "runner-key", maxRetries: this.maxRetries });
    const request = {
      model: "scripted",
      max_tokens: 100,
      messages: this.messages as unknown as Anthropic.MessageParam[],
      tools: [{ name: "native", input_schema: { type: "object" as const } }],
    };
    const message = this.isStreaming ? await client.messages.stream(request).finalMessage() : await client.messages.create(request);
    this.messages.push({ role: "assistant", content: message.content });
    const text = message.content.map((block) => (block.type === "text" ? block.text : "")).join("");
    const calls = message.content.flatMap((block) => (block.type === "tool_use" ? [block.name] : []));
    return { text, calls, totalTokens: message.usage.input_tokens + message.usage.output_tokens };
  }

  answer(result: string): Promise<Seen> {
    const uses = objectsIn(this.messages.at(-1)?.["content"]).filter(({ type }) => type === "tool_use");
    this.messages.push({ role: "user", content: uses.map(({ id }) => ({ type: "tool_result", tool_use_id: id, content: result })) });
    return this.ask();
  }
}
