import { readFileSync } from "node:fs";
import { z } from "zod";
import type { JsonObject } from "../manifest.ts";
import { resultsIn, type Script } from "./scripted-model.ts";

/** A question, and what a scripted model does about it. In its texts, `{1}` stands for the data of the first call's result. */
const Conversation = z.strictObject({
  /** Programs that run beside the sidecars, such as devices, from the folder of the pod. */
  programs: z.array(z.tuple([z.string()], z.string())).default([]),
  question: z.string(),
  /** By the names that a model sees. */
  calls: z.array(z.strictObject({ tool: z.string(), args: z.record(z.string(), z.unknown()) })),
  answer: z.string(),
  /** Other tools, of devices that may register them late. The model is asked when they are there. */
  awaits: z.array(z.string()).default([]),
});
export type Conversation = z.infer<typeof Conversation>;

/** @throws Error if the file is not a conversation. */
export function readConversation(file: string): Conversation {
  const { data, error } = Conversation.safeParse(JSON.parse(readFileSync(file, "utf8")));
  if (data === undefined) throw new Error(`${file} is not a conversation:\n${z.prettifyError(error)}`);
  return data;
}

/** A model that makes the calls one after the other, and then answers. */
export function scriptOf({ calls, answer }: Conversation): Script {
  return (body) => {
    const results = resultsIn(body);
    const call = calls[results.length];
    if (call === undefined) return { text: filled(answer, results) };
    return { calls: [{ name: call.tool, args: JSON.parse(filled(JSON.stringify(call.args), results, escaped)) }] };
  };
}

function filled(text: string, results: readonly string[], escape: (data: string) => string = (data) => data): string {
  return text.replaceAll(/\{(\d+)\}/g, (placeholder, number: string) => {
    const result = results[Number(number) - 1];
    return result === undefined ? placeholder : escape(dataOf(result));
  });
}

/** The data of a result as a text; the whole result if the call failed. */
function dataOf(result: string): string {
  const { data } = JSON.parse(result) as JsonObject;
  if (data === undefined) return result;
  return typeof data === "string" ? data : JSON.stringify(data);
}

/** For use within a string of JSON. */
function escaped(data: string): string {
  return JSON.stringify(data).slice(1, -1);
}
