import type { JsonObject } from "../manifest.ts";

/** A call of a tool in a model's response. */
export interface ToolCall {
  readonly id: string;
  /** As on the wire. */
  readonly name: string;
  /** As the model has written it; an object if it is valid. */
  readonly args: unknown;
}

/** A tool as the model sees it. */
export interface WireTool {
  readonly name: string;
  readonly description: string;
  readonly inputSchema: JsonObject;
}

/** The result of a call as the model sees it. */
export interface ToolResult {
  readonly call: ToolCall;
  readonly text: string;
  readonly isError: boolean;
}

/** A model's response. */
export interface Answer {
  /** The message of the assistant, as it is appended to a conversation. */
  readonly message: JsonObject;
  readonly calls: readonly ToolCall[];
  /** Counts of tokens, by the names of the format. */
  readonly usage: Usage;
}

export type Usage = Readonly<Record<string, number>>;

/** What the wire formats of model providers have in common. None of these functions changes its arguments. */
export interface Format {
  readonly name: "openai" | "anthropic";
  /** The path of the endpoint, of runners and of the model. */
  readonly path: string;
  /** Comment that keeps an event stream open. */
  readonly keepAlive: string;
  /** Returns the names of the runner's own tools. */
  runnerTools(body: JsonObject): string[];
  /** Returns the request with more tools, for a response that is not streamed. @param isLater true after a hidden round. */
  prepare(body: JsonObject, messages: readonly JsonObject[], tools: readonly WireTool[], isLater: boolean): JsonObject;
  /** @returns undefined if it is not a response of this format. */
  read(response: JsonObject): Answer | undefined;
  /** Returns an assistant message with only these of its calls. */
  withCalls(message: JsonObject, calls: readonly ToolCall[]): JsonObject;
  /** Returns the messages with the results of all calls of one assistant message. */
  results(results: readonly ToolResult[]): JsonObject[];
  /** Returns the parts of a message that identify it, however a runner writes it. */
  identity(message: JsonObject): string;
  /** Returns a response with the tokens of all rounds. */
  withUsage(response: JsonObject, total: Usage): JsonObject;
  /** Returns a response as the events of a stream. */
  events(response: JsonObject, body: JsonObject): string[];
  /** Returns an error in the form of this provider. */
  error(status: number, message: string): JsonObject;
  /** Returns the event of an error in a stream that has begun. */
  errorEvent(error: JsonObject): string;
}

export function sumOf(usages: readonly Usage[]): Usage {
  const total: Record<string, number> = {};
  for (const usage of usages) for (const [name, count] of Object.entries(usage)) total[name] = (total[name] ?? 0) + count;
  return total;
}

/** Returns the members that are numbers. Providers have details in others. */
export function numbersIn(value: unknown): Usage {
  const entries = Object.entries((value ?? {}) as JsonObject).filter((entry): entry is [string, number] => typeof entry[1] === "number");
  return Object.fromEntries(entries);
}

export function parseArgs(text: unknown): unknown {
  if (typeof text !== "string") return text;
  try {
    // Some models send nothing for a tool without arguments.
    return text.trim() === "" ? {} : (JSON.parse(text) as unknown);
  } catch {
    return text;
  }
}

export function objectsIn(value: unknown): JsonObject[] {
  return Array.isArray(value) ? value.filter((each): each is JsonObject => typeof each === "object" && each !== null) : [];
}

/** Divides a text into pieces for a stream that was not one. */
export function piecesOf(text: string): string[] {
  return text.match(/[\s\S]{1,64}(?=\s|$)|[\s\S]{1,64}/g) ?? [];
}
