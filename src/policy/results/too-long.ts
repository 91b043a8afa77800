import { bytesOf, type ResponseOutline } from "./response-outline.ts";

/** A response that is too long, and the room it may have. */
export interface TooLong {
  readonly text: string;
  readonly outline: ResponseOutline;
  /** `"id":…,` with the id as it is spelled; empty where there is none. */
  readonly idMember: string;
  readonly originalBytes: number;
  readonly maxBytes: number;
}

/** No code has more digits. */
const MAX_CODE_LENGTH = 32;
const INTERNAL_ERROR = "-32603";

/** The response up to the members of its result. */
export function openResult({ idMember }: TooLong): string {
  return `{"jsonrpc":"2.0",${idMember}"result":{`;
}

/** The response up to what follows the code of its error. */
export function openError(tooLong: TooLong): string {
  return `{"jsonrpc":"2.0",${tooLong.idMember}"error":{"code":${keptCode(tooLong) ?? INTERNAL_ERROR},`;
}

/** The code of the error as it is spelled; undefined if it is absent or too long to be kept. */
export function keptCode({ text, outline }: TooLong): string | undefined {
  const code = outline.error?.get("code");
  const isKept = code !== undefined && bytesOf(text, code, MAX_CODE_LENGTH) <= MAX_CODE_LENGTH;
  return isKept ? text.slice(code.start, code.end) : undefined;
}

/** `,"isError":true`, where the result says so or the opposite. */
export function readFlag(text: string, { result }: ResponseOutline): string {
  const member = result?.get("isError");
  const value = member === undefined ? "" : text.slice(member.start, member.end);
  return value === "true" || value === "false" ? `,"isError":${value}` : "";
}
