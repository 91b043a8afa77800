import { objectText } from "../json/edit.ts";
import { findMembers, findPath, stringOf } from "../json/find.ts";
import type { Span } from "../json/text.ts";
import { readValue } from "../json/value.ts";
import { isJsonObject, type JsonObject, type RequestMessage, Slot } from "./message.ts";

export const AskMethod = { elicitation: "elicitation/create", sampling: "sampling/createMessage", roots: "roots/list" } as const;

/** The kinds of questions that a server asks its client, as bits of a set (MCP 2025-11-25, client/elicitation, client/sampling). */
export const AskKind = { form: 1, url: 2, sampling: 4, samplingTools: 8, roots: 16 } as const;

/** True if the client that sends this `initialize` has declared a capability for which its server may send it requests. */
export function canBeAsked({ outline }: RequestMessage): boolean {
  return [Slot.sampling, Slot.elicitation, Slot.roots].some((slot) => outline.has(slot));
}

/** Returns the capabilities that the client of an `initialize` declares; undefined if they are not an object. */
export function capabilitiesOf({ text, outline }: RequestMessage): Span | undefined {
  const span = outline.has(Slot.params) ? findPath(text, outline.start(Slot.params), ["capabilities"]) : undefined;
  return span !== undefined && text[span.start] === "{" ? span : undefined;
}

/** Returns the JSON text of the capabilities for which a server may ask the client that sends this `initialize`. */
export function questionCapabilities({ outline }: RequestMessage): string {
  return objectText([
    ["roots", outline.textAt(Slot.roots)],
    ["sampling", outline.textAt(Slot.sampling)],
    ["elicitation", outline.textAt(Slot.elicitation)],
  ]);
}

/** A set of kinds. 0 is the empty set. */
export type AskKinds = number;

const NAMES = [
  [AskKind.form, "elicitation.form"],
  [AskKind.url, "elicitation.url"],
  [AskKind.sampling, "sampling"],
  [AskKind.samplingTools, "sampling.tools"],
] as const;

/**
 * Returns the kinds that a server is offered. Roots are not: servers keep them for the whole process, so the roots of one client would rule
 * the calls of others. A server that asks for them nevertheless, during a call, gets the roots of that call's client.
 */
export function offeredKinds(declared: AskKinds): AskKinds {
  return declared & ~AskKind.roots;
}

/** True if all kinds of the first set are in the second one. */
export function isSubset(kinds: AskKinds, of: AskKinds): boolean {
  return (kinds & ~of) === 0;
}

/** Returns the name of a set, for `/status` and logs. */
export function nameOf(kinds: AskKinds): string {
  return NAMES.filter(([kind]) => isSubset(kind, kinds))
    .map(([, name]) => name)
    .join("+");
}

/** Returns the client capabilities that permit these questions. */
export function capabilitiesFor(kinds: AskKinds): Readonly<Record<string, object>> {
  const ifHas = <Part extends object>(kind: AskKinds, part: Part): Part | undefined => (isSubset(kind, kinds) ? part : undefined);
  const elicitation = { ...ifHas(AskKind.form, { form: {} }), ...ifHas(AskKind.url, { url: {} }) };
  const sampling = ifHas(AskKind.sampling, { sampling: { ...ifHas(AskKind.samplingTools, { tools: {} }) } });
  return { ...(Object.keys(elicitation).length > 0 && { elicitation }), ...sampling, ...ifHas(AskKind.roots, { roots: {} }) };
}

/**
 * Returns the kinds that client capabilities permit. An empty `elicitation` means forms (MCP 2025-11-25 and 2026-07-28, client/elicitation).
 *
 * @param capabilitiesAt the start of the object in the text.
 */
export function declaredKinds(text: string, capabilitiesAt: number): AskKinds {
  const has = (...path: string[]): boolean => text[findPath(text, capabilitiesAt, path)?.start ?? -1] === "{";
  const url = has("elicitation", "url") ? AskKind.url : 0;
  const form = url === 0 ? has("elicitation") : has("elicitation", "form");
  const sampling = has("sampling") ? AskKind.sampling | (has("sampling", "tools") ? AskKind.samplingTools : 0) : 0;
  return (form ? AskKind.form : 0) | url | sampling | (has("roots") ? AskKind.roots : 0);
}

/** Returns the kinds that a client must have declared for a request of the server; 0 for a request that is not for clients. */
export function kindsOf({ method, text, outline }: RequestMessage): AskKinds {
  const members = (...names: string[]): (Span | undefined)[] =>
    outline.firstAt(Slot.params) === "{" ? [...findMembers(text, outline.start(Slot.params), names).spans] : [];
  if (method === AskMethod.elicitation) return stringOf(text, members("mode")[0]) === "url" ? AskKind.url : AskKind.form;
  if (method === AskMethod.roots) return AskKind.roots;
  if (method !== AskMethod.sampling) return 0;
  return members("tools", "toolChoice").some((span) => span !== undefined) ? AskKind.sampling | AskKind.samplingTools : AskKind.sampling;
}

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
    // Values other than `true` and objects may change: they are parameters of a capability.
    const isDeclared = current !== undefined && current !== null && current !== false;
    const isStillThere = value === true ? current === true : isJsonObject(value) ? isJsonObject(current) : isDeclared;
    if (!isStillThere) return name;
    if (!isJsonObject(value) || !isJsonObject(current) || depth === 0) continue;
    const missing = findMissingIn(value, current, depth - 1);
    if (missing !== undefined) return `${name}.${missing}`;
  }
  return undefined;
}

/** The lists that may change. */
export const LISTS = ["tools", "prompts", "resources"] as const;

/** Returns the lists with `listChanged`. */
export function changingLists(declared: JsonObject): (typeof LISTS)[number][] {
  return LISTS.filter((name) => declares(declared, name, "listChanged"));
}

/** True if server capabilities have this one, such as `resources.subscribe`. */
export function declares(capabilities: JsonObject, name: string, member: string): boolean {
  const capability = capabilities[name];
  return isJsonObject(capability) && capability[member] === true;
}

/** @param resultText the JSON text of an `InitializeResult`. */
export function readCapabilities(resultText: string): JsonObject {
  const result = readValue(resultText);
  const capabilities = isJsonObject(result) ? result["capabilities"] : undefined;
  return isJsonObject(capabilities) ? capabilities : {};
}
