import { objectText } from "../json/edit.ts";
import { findMembers, findPath, stringOf } from "../json/read.ts";
import type { Span } from "../json/text.ts";
import { readValue } from "../json/value.ts";
import { isJsonObject, type JsonObject, type RequestMessage, Slot } from "./message.ts";

export const AskMethod = { elicitation: "elicitation/create", sampling: "sampling/createMessage", roots: "roots/list" } as const;

/** The kinds of questions that a server asks its client, as bits of a set (MCP 2025-11-25, client/elicitation, client/sampling). */
export const AskKind = { form: 1, url: 2, sampling: 4, samplingTools: 8, roots: 16 } as const;

export function canBeAsked({ outline }: RequestMessage): boolean {
  return [Slot.sampling, Slot.elicitation, Slot.roots].some((slot) => outline.has(slot));
}

export function capabilitiesOf({ text, outline }: RequestMessage): Span | undefined {
  const span = findPath(text, outline.start(Slot.params), ["capabilities"]);
  return span !== undefined && text[span.start] === "{" ? span : undefined;
}

export function questionCapabilities({ outline }: RequestMessage): string {
  return objectText([
    ["roots", outline.textAt(Slot.roots)],
    ["sampling", outline.textAt(Slot.sampling)],
    ["elicitation", outline.textAt(Slot.elicitation)],
  ]);
}

export type AskKinds = number;

const NAMES = [
  [AskKind.form, "elicitation.form"],
  [AskKind.url, "elicitation.url"],
  [AskKind.sampling, "sampling"],
  [AskKind.samplingTools, "sampling.tools"],
] as const;

/**
 * Returns the kinds that a server is offered. Servers keep roots for the whole process, so those of one client would rule the calls of
 * others. A server that asks for them during a call nevertheless gets those of its client.
 */
export function offeredKinds(declared: AskKinds): AskKinds {
  return declared & ~AskKind.roots;
}

export function isSubset(kinds: AskKinds, of: AskKinds): boolean {
  return (kinds & ~of) === 0;
}

export function nameOf(kinds: AskKinds): string {
  return NAMES.filter(([kind]) => isSubset(kind, kinds))
    .map(([, name]) => name)
    .join("+");
}

export function capabilitiesFor(kinds: AskKinds): Readonly<Record<string, object>> {
  const ifHas = <Part extends object>(kind: AskKinds, part: Part): Part | undefined => (isSubset(kind, kinds) ? part : undefined);
  const elicitation = { ...ifHas(AskKind.form, { form: {} }), ...ifHas(AskKind.url, { url: {} }) };
  const sampling = ifHas(AskKind.sampling, { sampling: { ...ifHas(AskKind.samplingTools, { tools: {} }) } });
  return { ...(Object.keys(elicitation).length > 0 && { elicitation }), ...sampling, ...ifHas(AskKind.roots, { roots: {} }) };
}

/** An empty `elicitation` means forms (MCP 2025-11-25 and 2026-07-28, client/elicitation). */
export function declaredKinds(text: string, capabilitiesAt: number): AskKinds {
  const has = (...path: string[]): boolean => text[findPath(text, capabilitiesAt, path)?.start ?? -1] === "{";
  const url = has("elicitation", "url") ? AskKind.url : 0;
  const form = url === 0 ? has("elicitation") : has("elicitation", "form");
  const sampling = has("sampling") ? AskKind.sampling | (has("sampling", "tools") ? AskKind.samplingTools : 0) : 0;
  return (form ? AskKind.form : 0) | url | sampling | (has("roots") ? AskKind.roots : 0);
}

/** 0 for a request that is not for clients. */
export function kindsOf({ method, text, outline }: RequestMessage): AskKinds {
  const params = outline.start(Slot.params);
  if (method === AskMethod.elicitation) return stringOf(text, findPath(text, params, ["mode"])) === "url" ? AskKind.url : AskKind.form;
  if (method === AskMethod.roots) return AskKind.roots;
  if (method !== AskMethod.sampling) return 0;
  const hasTools = findMembers(text, params, ["tools", "toolChoice"]).spans.some((span) => span !== undefined);
  return hasTools ? AskKind.sampling | AskKind.samplingTools : AskKind.sampling;
}

/** A server may send enough levels to overflow the stack. */
const MAX_DEPTH = 16;

export function findMissing(before: JsonObject, now: JsonObject, depth = MAX_DEPTH): string | undefined {
  for (const [name, value] of Object.entries(before)) {
    if (value === false || value === null) continue;
    const current = Object.hasOwn(now, name) ? now[name] : undefined;
    // Values other than `true` and objects may change: they are parameters of a capability.
    const isDeclared = current !== undefined && current !== null && current !== false;
    const isStillThere = value === true ? current === true : isJsonObject(value) ? isJsonObject(current) : isDeclared;
    if (!isStillThere) return name;
    if (!isJsonObject(value) || !isJsonObject(current) || depth === 0) continue;
    const missing = findMissing(value, current, depth - 1);
    if (missing !== undefined) return `${name}.${missing}`;
  }
  return undefined;
}

export const LISTS = ["tools", "prompts", "resources"] as const;

export function changingLists(declared: JsonObject): (typeof LISTS)[number][] {
  return LISTS.filter((name) => declares(declared, name, "listChanged"));
}

export function declares(capabilities: JsonObject, name: string, member: string): boolean {
  const capability = capabilities[name];
  return isJsonObject(capability) && capability[member] === true;
}

export function readCapabilities(resultText: string): JsonObject {
  const result = readValue(resultText);
  const capabilities = isJsonObject(result) ? result["capabilities"] : undefined;
  return isJsonObject(capabilities) ? capabilities : {};
}
