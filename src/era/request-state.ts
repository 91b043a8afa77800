import { createCipheriv, createDecipheriv, randomBytes, randomUUID } from "node:crypto";
import { applyEdits } from "../json/edit.ts";
import { decodeString } from "../json/strings.ts";
import { SidecarError } from "../errors.ts";
import type { MemoryHolder } from "../memory/memory-budget.ts";
import { readMessage, type RequestMessage, Slot } from "../protocol/message.ts";
import type { FoundResult } from "./results/found-result.ts";

const NONCE_BYTES = 12;
const TAG_BYTES = 16;

/**
 * Seals the `requestState` of a server together with the client, the method and the name of the request (MCP 2026-07-28,
 * basic/utilities/mrtr). The server sees one identity for all clients, so it could not notice that a client uses the state of another one.
 */
export class RequestState {
  readonly #key = randomBytes(32);
  readonly #holderIds = new WeakMap<object, string>();

  /** Returns a server's response with its state sealed; undefined if it has none. */
  seal({ text, edits, requestState: span }: FoundResult, request: RequestMessage, holder: MemoryHolder): string | undefined {
    if (span === undefined || text[span.start] !== '"') return undefined;
    const nonce = randomBytes(NONCE_BYTES);
    const cipher = createCipheriv("aes-256-gcm", this.#key, nonce).setAAD(this.#binding(request, holder));
    const sealed = Buffer.concat([
      nonce,
      cipher.update(decodeString(text, span.start, span.end), "utf8"),
      cipher.final(),
      cipher.getAuthTag(),
    ]);
    return applyEdits(text, [...edits, { ...span, text: JSON.stringify(sealed.toString("base64url")) }]);
  }

  /** Returns a client's request with the state that the server has chosen. */
  unseal(request: RequestMessage, holder: MemoryHolder): RequestMessage | SidecarError {
    const { text, outline } = request;
    const span = outline.span(Slot.repeatedState);
    if (span === undefined) return request;
    const state = text[span.start] === '"' ? this.#open(decodeString(text, span.start, span.end), request, holder) : undefined;
    if (state === undefined) return invalidState();
    const edited = readMessage(applyEdits(text, [{ ...span, text: JSON.stringify(state) }]));
    return edited.kind === "request" ? edited : invalidState();
  }

  #open(sealedText: string, request: RequestMessage, holder: MemoryHolder): string | undefined {
    const sealed = Buffer.from(sealedText, "base64url");
    if (sealed.length < NONCE_BYTES + TAG_BYTES) return undefined;
    const decipher = createDecipheriv("aes-256-gcm", this.#key, sealed.subarray(0, NONCE_BYTES))
      .setAAD(this.#binding(request, holder))
      .setAuthTag(sealed.subarray(-TAG_BYTES));
    try {
      return decipher.update(sealed.subarray(NONCE_BYTES, -TAG_BYTES), undefined, "utf8") + decipher.final("utf8");
    } catch {
      return undefined;
    }
  }

  #binding({ method, outline }: RequestMessage, holder: MemoryHolder): Buffer {
    const name = outline.stringAt(method === "resources/read" ? Slot.uri : Slot.toolName) ?? "";
    return Buffer.from(JSON.stringify([this.#idOf(holder), method, name]));
  }

  #idOf(holder: MemoryHolder): string {
    if (typeof holder === "string") return holder;
    const id = this.#holderIds.get(holder) ?? randomUUID();
    this.#holderIds.set(holder, id);
    return id;
  }
}

function invalidState(): SidecarError {
  const message =
    "This requestState is not valid for this request: it is of another client, another request or an earlier start of the sidecar. The call may have taken effect; check before you start it again.";
  return new SidecarError("REQUEST_STATE_INVALID", message, { retrySafe: false });
}
