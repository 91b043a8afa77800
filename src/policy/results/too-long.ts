import { bytesOf, type Member, type ResponseOutline } from "./response-outline.ts";

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
export function openError({ text, outline, idMember }: TooLong): string {
  const code = outline.error?.get("code");
  const isKept = code !== undefined && isShortCode(text, code);
  return `{"jsonrpc":"2.0",${idMember}"error":{"code":${isKept ? text.slice(code.start, code.end) : INTERNAL_ERROR},`;
}

/** Whether an error keeps the code that it had. */
export function hasCode({ text, outline }: TooLong): boolean {
  const code = outline.error?.get("code");
  return code !== undefined && isShortCode(text, code);
}

function isShortCode(text: string, code: Member): boolean {
  return bytesOf(text, code, MAX_CODE_LENGTH) <= MAX_CODE_LENGTH;
}

/** `,"isError":true`, where the result says so or the opposite. */
export function readFlag(text: string, { result }: ResponseOutline): string {
  const member = result?.get("isError");
  const value = member === undefined ? "" : text.slice(member.start, member.end);
  return value === "true" || value === "false" ? `,"isError":${value}` : "";
}
