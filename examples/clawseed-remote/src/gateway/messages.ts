// The messages between gateway and device: "Remote Tool Call Mechanism", Message Protocol Details.

import { z } from "zod";
import { parseJson } from "../json.ts";

/** Of a message that is no answer. A list for 50 devices has at most 3.2 MB. */
export const MAX_REGISTRATION_BYTES = 65_536;

const FromDevice = z.discriminatedUnion("type", [
  z.object({ type: z.literal("register_tools"), tools: z.array(z.unknown()) }),
  z.object({ type: z.literal("tool_result"), id: z.string(), output: z.string(), success: z.boolean().optional() }),
  z.object({ type: z.literal("tool_error"), id: z.string(), error: z.string(), success: z.boolean().optional() }),
]);
type FromDevice = z.infer<typeof FromDevice>;
export type ToolAnswer = Exclude<FromDevice, { type: "register_tools" }>;

/** A tool that was not registered. An addition to the messages of ClawSeed. */
export interface Rejection {
  readonly name: string;
  readonly reason: string;
}

export type ToDevice =
  | { readonly type: "tools_registered"; readonly count: number; readonly registered: number; readonly rejected?: Rejection[] | undefined }
  | { readonly type: "tool_call_request"; readonly id: string; readonly name: string; readonly args: object }
  | { readonly type: "result_acknowledged"; readonly id: string };

/** @returns undefined if the message has no known type, and an error if it is malformed or too long. */
export function parseMessage(data: Buffer): FromDevice | Error | undefined {
  const json = parseJson(data.toString());
  if (json === undefined) return new Error("the message is not JSON");
  const { data: message, error } = FromDevice.safeParse(json);
  const isUnknown = error?.issues[0]?.code === "invalid_union";
  if (error !== undefined && !isUnknown) return new Error(firstIssue(error));
  if ((message === undefined || message.type === "register_tools") && data.length > MAX_REGISTRATION_BYTES)
    return new Error(`a message that is no answer has at most ${MAX_REGISTRATION_BYTES} bytes`);
  return message;
}

/** Returns the first problem with its place. */
export function firstIssue(error: z.ZodError): string {
  const [issue] = error.issues;
  return `${issue?.path.map(String).join(".") || "the value"}: ${issue?.message}`;
}
