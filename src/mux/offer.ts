import { readValue } from "../json/values.ts";
import { isJsonObject, type JsonObject } from "../jsonrpc/message.ts";

/** What a client can rely on once `initialize` is answered. */
export interface Offer {
  /** Undefined where the sidecar speaks every revision in the server's place. */
  readonly protocolVersion: string | undefined;
  readonly capabilities: JsonObject;
}

/** Real capabilities are two or three deep; a server may send them nested deeper than a stack is. */
const MAX_DEPTH = 16;

/** @returns the first thing that was offered and is not any more, for people; undefined where there is none. More than before is fine. */
export function findMissing(before: Offer, now: Offer): string | undefined {
  if (before.protocolVersion !== now.protocolVersion) {
    return `protocol revision ${before.protocolVersion} (now ${now.protocolVersion})`;
  }
  return findMissingIn(before.capabilities, now.capabilities, MAX_DEPTH);
}

function findMissingIn(before: JsonObject, now: JsonObject, depth: number): string | undefined {
  for (const [name, value] of Object.entries(before)) {
    // What was declined before was not offered.
    if (value === false || value === null) continue;
    const current = Object.hasOwn(now, name) ? now[name] : undefined;
    if (!isStillThere(value, current)) return name;
    if (!isJsonObject(value) || !isJsonObject(current) || depth === 0) continue;
    const missing = findMissingIn(value, current, depth - 1);
    if (missing !== undefined) return `${name}.${missing}`;
  }
  return undefined;
}

/** Other values than `true` and objects are up to the server: they say how something is offered, not whether. */
function isStillThere(before: unknown, now: unknown): boolean {
  if (before === true) return now === true;
  if (isJsonObject(before)) return isJsonObject(now);
  return now !== undefined && now !== null && now !== false;
}

/** The lists of which a server says that it tells when they change. */
export function changingLists({ capabilities }: Offer): string[] {
  return ["tools", "prompts", "resources"].filter((name) => {
    const capability = capabilities[name];
    return isJsonObject(capability) && capability["listChanged"] === true;
  });
}

/** @param resultText the JSON text of an `InitializeResult`. */
export function readCapabilities(resultText: string): JsonObject {
  const result = readValue(resultText);
  const capabilities = isJsonObject(result) ? result["capabilities"] : undefined;
  return isJsonObject(capabilities) ? capabilities : {};
}
