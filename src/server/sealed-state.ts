import { createCipheriv, createDecipheriv, type KeyObject, randomBytes } from "node:crypto";
import { applyEdits } from "../json/edit.ts";
import { decodeString } from "../json/text.ts";
import { SidecarError } from "../mcp/errors.ts";
import { readMessage, type RequestMessage, type ResponseMessage, Slot } from "../mcp/message.ts";
import type { SessionKeys } from "../session/ids.ts";
import type { Principal } from "../session/session.ts";

const NONCE_BYTES = 12;
const TAG_BYTES = 16;
/** The form of sealed states. A sidecar of another version may have sealed something else with the same key. */
const CONTENT = "JSON source";

/**
 * Seals the `requestState` of a response together with the client, the method and the name of the request (MCP 2026-07-28,
 * basic/utilities/mrtr). The server sees one identity, so it could not notice that a client uses the state of another one. Each replica
 * with the same SESSION_KEY can unseal it.
 *
 * The JSON source is sealed, not the value: UTF-8 has no unpaired surrogates.
 *
 * @returns undefined for a response without a state.
 */
export function sealState(
  keys: SessionKeys,
  { text, outline, edits = [] }: ResponseMessage,
  request: RequestMessage,
  owner: Principal | undefined,
): string | undefined {
  const span = outline.span(Slot.requestState);
  const [key] = keys.requestState;
  if (key === undefined || span === undefined || text[span.start] !== '"') return undefined;
  const nonce = randomBytes(NONCE_BYTES);
  const cipher = createCipheriv("aes-256-gcm", key, nonce).setAAD(bindingOf(request, owner));
  const sealed = Buffer.concat([nonce, cipher.update(text.slice(span.start, span.end), "utf8"), cipher.final(), cipher.getAuthTag()]);
  return applyEdits(text, [...edits, { ...span, text: JSON.stringify(sealed.toString("base64url")) }]);
}

export function unsealState(keys: SessionKeys, request: RequestMessage, owner: Principal | undefined): RequestMessage | SidecarError {
  const { text, outline } = request;
  const span = outline.span(Slot.repeatedState);
  if (span === undefined) return request;
  const sealed = Buffer.from(text[span.start] === '"' ? decodeString(text, span.start, span.end) : "", "base64url");
  const binding = bindingOf(request, owner);
  const stateText = keys.requestState.map((key) => decrypt(key, sealed, binding)).find((state) => state !== undefined);
  if (stateText === undefined) return invalidState();
  const edited = readMessage(applyEdits(text, [{ ...span, text: stateText }]));
  return edited.kind === "request" ? edited : invalidState();
}

function decrypt(key: KeyObject, sealed: Buffer, binding: Buffer): string | undefined {
  if (sealed.length < NONCE_BYTES + TAG_BYTES) return undefined;
  const decipher = createDecipheriv("aes-256-gcm", key, sealed.subarray(0, NONCE_BYTES))
    .setAAD(binding)
    .setAuthTag(sealed.subarray(-TAG_BYTES));
  try {
    return decipher.update(sealed.subarray(NONCE_BYTES, -TAG_BYTES), undefined, "utf8") + decipher.final("utf8");
  } catch {
    return undefined;
  }
}

function bindingOf({ method, outline }: RequestMessage, owner: Principal | undefined): Buffer {
  const name = outline.stringAt(method === "resources/read" ? Slot.uri : Slot.toolName) ?? "";
  return Buffer.from(JSON.stringify([CONTENT, owner?.fingerprint, method, name]));
}

function invalidState(): SidecarError {
  const message =
    "This requestState is not valid for this request: it is of another client, another request, or of a sidecar with another CLAW_MCP_STDIO_SESSION_KEY; without that key, a state ends with its sidecar. The call may have taken effect; check before you start it again.";
  return new SidecarError("REQUEST_STATE_INVALID", message, { retrySafe: false });
}
