import { isObject, type JsonObject } from "../form/json-object.ts";

/** The result of a call, as the server sent it. */
export interface CallResult {
  readonly content: readonly unknown[];
  /** Undefined if there is none. */
  readonly structuredContent: unknown;
  readonly isError: boolean;
}

export function callResultOf(result: unknown): CallResult {
  const { content, structuredContent, isError }: JsonObject = isObject(result) ? result : {};
  return { content: Array.isArray(content) ? content : [], structuredContent, isError: isError === true };
}
