import type { Client as ClientV2 } from "@modelcontextprotocol/client";
import type { Client as ClientV1 } from "@modelcontextprotocol/sdk/client/index.js";
import { CreateMessageRequestSchema, ElicitRequestSchema, ListRootsRequestSchema } from "@modelcontextprotocol/sdk/types.js";

export type Params = Readonly<Record<string, unknown>>;

export interface Question {
  readonly method: string;
  readonly params: Params;
  /** Aborted when the server cancels the request. */
  readonly signal: AbortSignal;
}

/** @returns the result. */
export type Answer = (question: Question) => object | Promise<object>;

export function answerWithV1(client: ClientV1, answer: Answer): void {
  for (const schema of [CreateMessageRequestSchema, ElicitRequestSchema, ListRootsRequestSchema]) {
    client.setRequestHandler(schema as typeof CreateMessageRequestSchema, async ({ method, params }, { signal }) =>
      answer({ method, params: { ...params }, signal }),
    );
  }
}

export function answerWithV2(client: ClientV2, answer: Answer): void {
  for (const each of ["sampling/createMessage", "elicitation/create", "roots/list"]) {
    client.setRequestHandler(
      each as "sampling/createMessage",
      async ({ method, params }, { mcpReq: { signal } }) => (await answer({ method, params: { ...params }, signal })) as never,
    );
  }
}
