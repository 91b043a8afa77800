import { randomUUID } from "node:crypto";
import { isShallow, type JsonObject } from "../manifest.ts";
import { parseJson } from "./json.ts";

/** A call of a tool in a model's response. */
export interface ToolCall {
  readonly id: string;
  /** As on the wire. */
  readonly name: string;
  /** An object if it is valid; otherwise as the model has written it. */
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
export interface ModelReply {
  /** The message of the assistant. */
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
  read(response: JsonObject): ModelReply | undefined;
  /** Returns an assistant message with only the first of its calls: these, which have ids and valid arguments. */
  withCalls(message: JsonObject, calls: readonly ToolCall[]): JsonObject;
  /** Returns the messages with the results of all calls of one assistant message. */
  results(results: readonly ToolResult[]): JsonObject[];
  /** Returns the parts of a message that identify it, however a runner writes it. */
  identity(message: JsonObject): string;
  /** Returns a response with the tokens of all rounds. */
  withUsage(response: JsonObject, total: Usage): JsonObject;
  /** Returns a response as the events of a stream. */
  events(response: JsonObject, body: JsonObject): Iterable<string>;
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

export function parseArgs(written: unknown): unknown {
  if (typeof written !== "string") return isShallow(written) ? written : undefined;
  // Some models send nothing for a tool without arguments.
  const args = written.trim() === "" ? {} : parseJson(written);
  return args !== undefined && isShallow(args) ? args : written;
}

/** Returns the calls with ids of their own. Some providers leave them empty, or repeat them in each response. */
export function withIds(calls: readonly ToolCall[], usedIds: ReadonlySet<string>): ToolCall[] {
  const used = new Set(usedIds);
  return calls.map((call) => {
    const id = call.id === "" || used.has(call.id) ? `call_${randomUUID().replaceAll("-", "")}` : call.id;
    used.add(id);
    return { ...call, id };
  });
}

export function textOrNone(value: unknown): string {
  return typeof value === "string" ? value : "";
}

export function objectsIn(value: unknown): JsonObject[] {
  return Array.isArray(value) ? value.filter((each): each is JsonObject => typeof each === "object" && each !== null) : [];
}

/** Divides a text into pieces for a stream that was not one. */
export function piecesOf(text: string): string[] {
  return text.match(/[\s\S]{1,64}(?=\s|$)|[\s\S]{1,64}/gu) ?? [];
}
