import { createHash } from "node:crypto";
import { type RequestMessage, Slot } from "../../protocol/message.ts";

/** Returns a text that is the same only for requests with the same method, name and arguments. */
export function bindingOf({ method, text, outline }: RequestMessage): string {
  const spans = [Slot.toolName, Slot.uri, Slot.arguments].map((slot) => outline.span(slot));
  const parts = spans.map((span) => span && text.slice(span.start, span.end));
  return createHash("sha256")
    .update(JSON.stringify([method, ...parts]))
    .digest("base64");
}
