// Checks that a response matches its request.

import { MODERN_VERSION } from "../../test/support/modern-client.ts";
import { ASK_TOOL, digestOf, questionOf, SERVER_NAME, type ToolAnswer } from "../contract.ts";
import type { RequestRecord } from "../ledger.ts";
import type { Verdict } from "../tally.ts";

export interface Response {
  readonly id?: unknown;
  readonly result?: unknown;
  readonly error?: { readonly code?: unknown; readonly message?: unknown; readonly data?: unknown };
}

export interface Judgement {
  readonly verdict: Verdict;
  readonly detail: string;
  /** The process that responded, if it is known. */
  readonly serverPid?: number;
}

interface ToolResult {
  readonly isError?: boolean;
  readonly content?: readonly { readonly text?: string }[];
}

export function judge(record: RequestRecord, response: Response, httpStatus: number): Judgement {
  if (response.error !== undefined) return { verdict: "error", detail: errorCode(response.error, httpStatus) };
  const { isStateless = false, what } = record;
  if (isStateless && what === ASK_TOOL && isQuestion(response.result)) return judgeQuestion(record, response.result);
  const { resultType } = (response.result ?? {}) as { readonly resultType?: unknown };
  if (resultType !== (isStateless ? "complete" : undefined)) return expect(false, response);
  switch (what) {
    case "subscriptions/listen":
      return expect(true, response);
    case "server/discover":
      return expect(
        (response.result as { supportedVersions?: readonly unknown[] } | undefined)?.supportedVersions?.[0] === MODERN_VERSION,
        response,
      );
    case "initialize":
      return expect(nameOf(response.result) === SERVER_NAME, response);
    case "ping":
      return expect(JSON.stringify(response.result) === "{}", response);
    case "tools/list":
      return expect(Array.isArray((response.result as { tools?: unknown } | undefined)?.tools), response);
    default:
      return judgeTool(record, response);
  }
}

/** A result that asks the client (MCP 2026-07-28). */
export interface QuestionResult {
  readonly inputRequests: Readonly<Record<string, { readonly params?: { readonly message?: unknown } }>>;
  readonly requestState?: string;
}

export function isQuestion(result: unknown): result is QuestionResult {
  return (result as { resultType?: unknown } | undefined)?.resultType === "input_required";
}

/** A client must see the questions of its own call only. */
function judgeQuestion(record: RequestRecord, { inputRequests }: QuestionResult): Judgement {
  const others = Object.values(inputRequests).filter(({ params }) => params?.message !== questionOf(record));
  return others.length === 0 ? { verdict: "right", detail: "" } : { verdict: "crossed", detail: JSON.stringify(others).slice(0, 300) };
}

/** Returns the wrapper's own code of the error, or its HTTP status and JSON-RPC code if there is none. */
function errorCode({ code, data }: NonNullable<Response["error"]>, httpStatus: number): string {
  const named = (data as { code?: unknown } | undefined)?.code;
  return typeof named === "string" ? named : `HTTP ${httpStatus}, ${String(code)}`;
}

function judgeTool(record: RequestRecord, response: Response): Judgement {
  const result = response.result as ToolResult | undefined;
  const text = result?.content?.[0]?.text;
  if (result?.isError === true) return { verdict: "error", detail: "isError" };
  let answer: ToolAnswer;
  try {
    answer = JSON.parse(text ?? "") as ToolAnswer;
  } catch {
    return expect(false, response);
  }
  const { client, nonce, digest, pid } = answer;
  if (client !== record.client) return { verdict: "crossed", detail: `the answer of ${client}, ${nonce}` };
  if (nonce !== record.nonce || answer.text !== record.text || digest !== digestOf(record)) return expect(false, response);
  return { verdict: "right", detail: "", serverPid: pid };
}

function expect(isRight: boolean, response: Response): Judgement {
  return isRight ? { verdict: "right", detail: "" } : { verdict: "wrong", detail: JSON.stringify(response).slice(0, 300) };
}

function nameOf(result: unknown): string | undefined {
  return (result as { serverInfo?: { name?: string } } | undefined)?.serverInfo?.name;
}
