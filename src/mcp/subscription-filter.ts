import { findMembers } from "../json/read.ts";
import { readValue } from "../json/value.ts";
import { changingLists, declares, LISTS } from "./capabilities.ts";
import { invalidParams, type SidecarError } from "./errors.ts";
import { type JsonObject, type SentText, Slot } from "./message.ts";

/** In UTF-16 units. */
const MAX_FILTER_LENGTH = 256 * 1024;

type List = (typeof LISTS)[number];

/** What a subscription asks for, or gets (MCP 2026-07-28, basic/utilities/subscriptions). */
export interface SubscriptionFilter {
  readonly lists: ReadonlySet<List>;
  readonly uris: ReadonlySet<string>;
  /** Ids of the extension io.modelcontextprotocol/tasks. */
  readonly tasks: ReadonlySet<string>;
}

const MEMBERS = [...LISTS.map(memberOf), "resourceSubscriptions", "taskIds"];

function memberOf(list: List): string {
  return `${list}ListChanged`;
}

function methodOf(list: List): string {
  return `notifications/${list}/list_changed`;
}

/** Reads a `subscriptions/listen`, or an acknowledgement. @param maxLength in UTF-16 units. */
export function readFilter({ text, outline }: SentText, maxLength = MAX_FILTER_LENGTH): SubscriptionFilter | SidecarError {
  const { spans, double } = findMembers(text, outline.start(Slot.params), ["notifications"]);
  const [span] = spans;
  if (span === undefined || text[span.start] !== "{") return invalidParams('"notifications" must be an object in the params');
  if (span.end - span.start > maxLength) return invalidParams(`"notifications" has more than ${maxLength} characters`);
  const ambiguous = double ?? findMembers(text, span.start, MEMBERS).double;
  if (ambiguous !== undefined) return invalidParams(`"${ambiguous}" is ambiguous`);
  const value = readValue(text, span) as JsonObject;
  const [uris, tasks] = [value["resourceSubscriptions"] ?? [], value["taskIds"] ?? []];
  if (!isStrings(uris)) return invalidParams('"resourceSubscriptions" must be an array of strings');
  if (!isStrings(tasks)) return invalidParams('"taskIds" must be an array of strings');
  return { lists: new Set(LISTS.filter((list) => value[memberOf(list)] === true)), uris: new Set(uris), tasks: new Set(tasks) };
}

function isStrings(value: unknown): value is string[] {
  return Array.isArray(value) && value.every((each) => typeof each === "string");
}

export const ALL_LISTS: ReadonlySet<List> = new Set(LISTS);

/** The part that a server with these capabilities can serve for a session. */
export function supportedPart({ lists, uris }: SubscriptionFilter, capabilities: JsonObject): SubscriptionFilter {
  const supported = lists.intersection(new Set(changingLists(capabilities)));
  return { lists: supported, uris: declares(capabilities, "resources", "subscribe") ? uris : new Set(), tasks: new Set() };
}

export function filterMembers({ lists, uris }: SubscriptionFilter): object {
  const members = Object.fromEntries([...lists].map((list) => [memberOf(list), true]));
  return uris.size === 0 ? members : { ...members, resourceSubscriptions: [...uris] };
}

export function accepts({ lists, uris }: SubscriptionFilter, method: string, uri: string | undefined): boolean {
  if (method === "notifications/resources/updated") return uri !== undefined && uris.has(uri);
  return LISTS.some((list) => lists.has(list) && method === methodOf(list));
}

/** One change of each list, as the server itself would announce it. */
export function listChanges(lists: Iterable<List>): string[] {
  return [...lists].map((list) => JSON.stringify({ jsonrpc: "2.0", method: methodOf(list) }));
}

export function contains(whole: SubscriptionFilter, part: SubscriptionFilter): boolean {
  return part.lists.isSubsetOf(whole.lists) && part.uris.isSubsetOf(whole.uris) && part.tasks.isSubsetOf(whole.tasks);
}

export function isSame(filter: SubscriptionFilter, other: SubscriptionFilter | undefined): boolean {
  return other !== undefined && contains(filter, other) && contains(other, filter);
}
