// The messages between gateway and device: "Remote Tool Call Mechanism", Message Protocol Details.

import { z } from "zod";

const RegisterTools = z.object({ type: z.literal("register_tools"), tools: z.array(z.unknown()) });
const ToolAnswer = z.discriminatedUnion("type", [
  z.object({ type: z.literal("tool_result"), id: z.string(), output: z.string(), success: z.boolean().optional() }),
  z.object({ type: z.literal("tool_error"), id: z.string(), error: z.string(), success: z.boolean().optional() }),
]);
const AnyMessage = z.object({ type: z.string(), id: z.string().optional() });
export type ToolAnswer = z.infer<typeof ToolAnswer>;

export type FromDevice =
  | z.infer<typeof RegisterTools>
  | ToolAnswer
  /** An answer whose call is known, but nothing else. */
  | { readonly type: "malformed_answer"; readonly id: string; readonly reason: string }
  | { readonly type: "malformed"; readonly reason: string }
  | { readonly type: "unknown"; readonly name: string };

/** A tool that was not registered. An addition to the messages of ClawSeed. */
export interface Rejection {
  readonly name: string;
  readonly reason: string;
}

export type ToDevice =
  | { readonly type: "tools_registered"; readonly count: number; readonly registered: number; readonly rejected?: readonly Rejection[] }
  | { readonly type: "tool_call_request"; readonly id: string; readonly name: string; readonly args: object }
  | { readonly type: "result_acknowledged"; readonly id: string };

export function parseMessage(text: string): FromDevice {
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch {
    return { type: "malformed", reason: "the message is not JSON" };
  }
  const { data: any } = AnyMessage.safeParse(json);
  if (any?.type === "register_tools") {
    const registration = RegisterTools.safeParse(json);
    return registration.data ?? { type: "malformed", reason: `register_tools: ${firstIssue(registration.error)}` };
  }
  if (any?.type === "tool_result" || any?.type === "tool_error") {
    const answer = ToolAnswer.safeParse(json);
    if (answer.success) return answer.data;
    const reason = `${any.type}: ${firstIssue(answer.error)}`;
    return any.id === undefined ? { type: "malformed", reason } : { type: "malformed_answer", id: any.id, reason };
  }
  return any === undefined ? { type: "malformed", reason: "the message has no type" } : { type: "unknown", name: any.type };
}

/** Returns the first problem with its place, and without values. */
export function firstIssue(error: z.ZodError | undefined): string {
  const [issue] = error?.issues ?? [];
  return issue === undefined ? "malformed" : `${issue.path.map(String).join(".") || "the value"}: ${issue.message}`;
}
