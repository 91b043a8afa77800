import { findMembers } from "../json/find.ts";
import { readValue } from "../json/values.ts";
import { JsonRpcErrorCode } from "./error-codes.ts";
import { type RequestMessage, type ResponseMessage, Slot } from "./message.ts";

/** True for an error of a server that does not know the method of a handshake, or supports other revisions only. */
export function refusesRevision({ text, outline }: RequestMessage | ResponseMessage): boolean {
  if (!outline.isObject(Slot.error)) return false;
  const [code] = findMembers(text, outline.start(Slot.error), ["code"]).spans;
  const value = code === undefined ? undefined : readValue(text, code);
  return value === JsonRpcErrorCode.UnsupportedVersion || value === JsonRpcErrorCode.MethodNotFound;
}
