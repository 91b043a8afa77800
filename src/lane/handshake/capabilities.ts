import { readValue } from "../../json/values.ts";
import { isJsonObject, type JsonObject } from "../../protocol/message.ts";

/** The revision and the capabilities that a client relies on after `initialize`. */
export interface Capabilities {
  /** Undefined for a shared server: the sidecar negotiates the revision with each client. */
  readonly protocolVersion: string | undefined;
  readonly declared: JsonObject;
}

/** Real capabilities have two or three levels. A server may send enough levels to overflow the stack. */
const MAX_DEPTH = 16;

/** @returns the first capability of `before` that is missing in `now`, as text for people; undefined if there is none. */
export function findMissing(before: Capabilities, now: Capabilities): string | undefined {
  if (before.protocolVersion !== now.protocolVersion) {
    return `protocol revision ${before.protocolVersion} (now ${now.protocolVersion})`;
  }
  return findMissingIn(before.declared, now.declared, MAX_DEPTH);
}

function findMissingIn(before: JsonObject, now: JsonObject, depth: number): string | undefined {
  for (const [name, value] of Object.entries(before)) {
    // False and null do not declare a capability.
    if (value === false || value === null) continue;
    const current = Object.hasOwn(now, name) ? now[name] : undefined;
    if (!isStillThere(value, current)) return name;
    if (!isJsonObject(value) || !isJsonObject(current) || depth === 0) continue;
    const missing = findMissingIn(value, current, depth - 1);
    if (missing !== undefined) return `${name}.${missing}`;
  }
  return undefined;
}

/** True if a capability still exists. Values other than `true` and objects may change: they are parameters of a capability. */
function isStillThere(before: unknown, now: unknown): boolean {
  if (before === true) return now === true;
  if (isJsonObject(before)) return isJsonObject(now);
  return now !== undefined && now !== null && now !== false;
}

/** Returns the lists with `listChanged`. */
export function changingLists({ declared }: Capabilities): string[] {
  return ["tools", "prompts", "resources"].filter((name) => {
    const capability = declared[name];
    return isJsonObject(capability) && capability["listChanged"] === true;
  });
}

/** @param resultText the JSON text of an `InitializeResult`. */
export function readCapabilities(resultText: string): JsonObject {
  const result = readValue(resultText);
  const capabilities = isJsonObject(result) ? result["capabilities"] : undefined;
  return isJsonObject(capabilities) ? capabilities : {};
}
