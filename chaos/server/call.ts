import { resultMembers } from "./era.ts";
import { digestOf, type ToolAnswer, type ToolArguments } from "../contract.ts";

export interface Call {
  readonly id: string | number;
  readonly arguments: ToolArguments;
  readonly progressToken: string | number | undefined;
}

/** Returns the right response to the call. @param padding further text of the result. */
export function answerLine({ id, arguments: { client, nonce, text } }: Call, padding?: string): string {
  const answer: ToolAnswer = { client, nonce, text, digest: digestOf({ client, nonce, text }), pid: process.pid };
  const content = [{ type: "text", text: JSON.stringify(answer) }];
  if (padding !== undefined) content.push({ type: "text", text: padding });
  return JSON.stringify({ jsonrpc: "2.0", id, result: { ...resultMembers(), content } });
}
