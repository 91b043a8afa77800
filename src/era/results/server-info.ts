import { MetaKey } from "../../protocol/meta-key.ts";

export const SERVER_INFO_NAME = JSON.stringify(MetaKey.serverInfo);

/** The name and version of a server with sessions, which each result gets. */
export interface ServerInfo {
  /** The JSON text of its `serverInfo`; undefined if it has none. */
  readonly text: string | undefined;
  /** The members that a result gets if it has none of them. */
  readonly membersText: string;
  /** The most bytes that the result of a tool gets. */
  readonly addedBytes: number;
}

/** Returns a result that asks the client for input, with these members after its questions. */
export function inputRequired(questions: readonly string[], { text }: ServerInfo, state?: string): string {
  const stateText = state === undefined ? "" : `,"requestState":${JSON.stringify(state)}`;
  const meta = text === undefined ? "" : `,"_meta":{${SERVER_INFO_NAME}:${text}}`;
  return `{"resultType":"input_required","inputRequests":{${questions.join(",")}}${stateText}${meta}}`;
}
