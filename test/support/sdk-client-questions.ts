import type { Client as ClientV2 } from "@modelcontextprotocol/client";
import type { Client as ClientV1 } from "@modelcontextprotocol/sdk/client/index.js";
import { CreateMessageRequestSchema, ElicitRequestSchema, ListRootsRequestSchema } from "@modelcontextprotocol/sdk/types.js";

export type Params = Readonly<Record<string, unknown>>;

/** A server's request to its client. */
export interface Question {
  readonly method: string;
  readonly params: Params;
  /** True if the server has cancelled the request. */
  readonly signal: AbortSignal;
  reportProgress(progress: number): Promise<void>;
}

/** @returns the result. */
export type Answer = (question: Question) => object | Promise<object>;

export function answerWithV1(client: ClientV1, answer: Answer): void {
  for (const schema of [CreateMessageRequestSchema, ElicitRequestSchema, ListRootsRequestSchema]) {
    client.setRequestHandler(schema as typeof CreateMessageRequestSchema, async ({ method, params }, { signal, sendNotification }) =>
      answer(toQuestion(method, params, signal, (notification) => sendNotification(notification))),
    );
  }
}

export function answerWithV2(client: ClientV2, answer: Answer): void {
  for (const each of ["sampling/createMessage", "elicitation/create", "roots/list"]) {
    client.setRequestHandler(
      each as "sampling/createMessage",
      async ({ method, params }, { mcpReq: { signal, notify } }) =>
        (await answer(toQuestion(method, params, signal, (notification) => notify(notification)))) as never,
    );
  }
}

interface ProgressNotification {
  readonly method: "notifications/progress";
  readonly params: { readonly progressToken: string | number; readonly progress: number };
}

function toQuestion(
  method: string,
  params: { readonly _meta?: { readonly progressToken?: string | number | undefined } | undefined } | undefined,
  signal: AbortSignal,
  notify: (notification: ProgressNotification) => Promise<void>,
): Question {
  const { _meta: meta } = params ?? {};
  const progressToken = meta?.progressToken ?? "none was given";
  return {
    method,
    params: { ...params },
    signal,
    reportProgress: (progress) => notify({ method: "notifications/progress", params: { progressToken, progress } }),
  };
}
