import { applyEdits, setMembers } from "../json/edit.ts";
import { findAmbiguous, findMembers } from "../json/find.ts";
import { readValue } from "../json/value.ts";
import { invalidParams, type SidecarError } from "./errors.ts";
import { isJsonObject, type JsonObject, MetaKey, type SentText, Slot } from "./message.ts";
import { removeMetaKey } from "./translate.ts";

/** The longest filter of a client. In UTF-16 units. */
const MAX_FILTER_LENGTH = 256 * 1024;

/** The kinds of list changes, with the notification and the capability of each (MCP 2026-07-28, basic/utilities/subscriptions). */
const LISTS = {
  toolsListChanged: { method: "notifications/tools/list_changed", capability: "tools" },
  promptsListChanged: { method: "notifications/prompts/list_changed", capability: "prompts" },
  resourcesListChanged: { method: "notifications/resources/list_changed", capability: "resources" },
} as const;
type ListKind = keyof typeof LISTS;
const LIST_KINDS = Object.keys(LISTS) as readonly ListKind[];

/** The notifications that a subscription asks for, or gets. */
export interface SubscriptionFilter {
  /** The kinds of list changes, as keys of the filter. */
  readonly lists: ReadonlySet<ListKind>;
  /** The URIs of resources whose updates are wanted. */
  readonly uris: ReadonlySet<string>;
  /** The tasks whose changes are wanted (extension io.modelcontextprotocol/tasks). */
  readonly tasks: ReadonlySet<string>;
}

const MEMBERS = [...LIST_KINDS, "resourceSubscriptions", "taskIds"];

/** Reads the filter of a `subscriptions/listen`, or of an acknowledgement. @param maxLength in UTF-16 units. */
export function readFilter({ text, outline }: SentText, maxLength = MAX_FILTER_LENGTH): SubscriptionFilter | SidecarError {
  const params = outline.has(Slot.params) ? findMembers(text, outline.start(Slot.params), ["notifications"]) : undefined;
  const span = params?.spans[0];
  if (span === undefined || text[span.start] !== "{") return invalidParams('"notifications" must be an object in the params');
  if (span.end - span.start > maxLength) return invalidParams(`"notifications" has more than ${maxLength} characters`);
  const ambiguous = params?.duplicate ?? params?.otherCase ?? findAmbiguous(text, span.start, MEMBERS);
  if (ambiguous !== undefined) return invalidParams(`"${ambiguous}" is ambiguous`);
  const value = readValue(text, span) as JsonObject;
  const [uris, tasks] = [value["resourceSubscriptions"] ?? [], value["taskIds"] ?? []];
  if (!isStrings(uris)) return invalidParams('"resourceSubscriptions" must be an array of strings');
  if (!isStrings(tasks)) return invalidParams('"taskIds" must be an array of strings');
  return { lists: new Set(LIST_KINDS.filter((kind) => value[kind] === true)), uris: new Set(uris), tasks: new Set(tasks) };
}

function isStrings(value: unknown): value is string[] {
  return Array.isArray(value) && value.every((each) => typeof each === "string");
}

export const ALL_LISTS: ReadonlySet<ListKind> = new Set(LIST_KINDS);

/** Returns the part of a filter that a server with these capabilities can serve for a session. */
export function supportedPart({ lists, uris }: SubscriptionFilter, capabilities: JsonObject): SubscriptionFilter {
  const declares = (capability: string, member: string): boolean => {
    const value = capabilities[capability];
    return isJsonObject(value) && value[member] === true;
  };
  return {
    lists: new Set([...lists].filter((kind) => declares(LISTS[kind].capability, "listChanged"))),
    uris: declares("resources", "subscribe") ? uris : new Set(),
    tasks: new Set(),
  };
}

/** Returns the filter as the params of a request have it. */
export function filterMembers({ lists, uris }: SubscriptionFilter): object {
  const members = Object.fromEntries([...lists].map((kind) => [kind, true]));
  return uris.size === 0 ? members : { ...members, resourceSubscriptions: [...uris] };
}

/** Returns the filter as the JSON text of an acknowledgement. */
export function filterText(filter: SubscriptionFilter): string {
  return JSON.stringify(filterMembers(filter));
}

/** True if a subscription with this filter gets the notification. @param uri that of a resource update. */
export function accepts({ lists, uris }: SubscriptionFilter, method: string, uri: string | undefined): boolean {
  if (method === "notifications/resources/updated") return uri !== undefined && uris.has(uri);
  return LIST_KINDS.some((kind) => LISTS[kind].method === method && lists.has(kind));
}

/** Returns one change of each accepted list, as the server itself would announce it. */
export function listChanges(lists: SubscriptionFilter["lists"]): string[] {
  return [...lists].map((kind) => JSON.stringify({ jsonrpc: "2.0", method: LISTS[kind].method }));
}

/** True if everything in `part` is in `whole` too. */
export function contains(whole: SubscriptionFilter, part: SubscriptionFilter): boolean {
  return part.lists.isSubsetOf(whole.lists) && part.uris.isSubsetOf(whole.uris) && part.tasks.isSubsetOf(whole.tasks);
}

export function isSame(filter: SubscriptionFilter, other: SubscriptionFilter | undefined): boolean {
  return other !== undefined && contains(filter, other) && contains(other, filter);
}

/** Returns a notification with this subscription id in the `_meta` of its params. */
export function withSubscriptionId(text: string, idText: string): string {
  const params = findMembers(text, 0, ["params"]).spans[0];
  const meta = params === undefined ? undefined : findMembers(text, params.start, ["_meta"]).spans[0];
  if (meta !== undefined && text[meta.start] === "{") {
    return applyEdits(text, setMembers(text, meta.start, [[MetaKey.subscriptionId, idText]]));
  }
  const metaText = `{${JSON.stringify(MetaKey.subscriptionId)}:${idText}}`;
  if (params === undefined) return applyEdits(text, setMembers(text, 0, [["params", `{"_meta":${metaText}}`]]));
  return applyEdits(text, setMembers(text, params.start, [["_meta", metaText]]));
}

/** Returns a notification of a subscription as a session gets it. */
export function ofSession(text: string): string {
  const params = findMembers(text, 0, ["params"]).spans[0];
  if (params === undefined || text[params.start] !== "{") return text;
  const meta = findMembers(text, params.start, ["_meta"]).spans[0];
  return applyEdits(text, removeMetaKey(text, params.start, meta, MetaKey.subscriptionId));
}
