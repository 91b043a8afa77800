import type { Context } from "../context.ts";
import { applyEdits, setMembers } from "../json/edit.ts";
import { findAmbiguous, findMembers, findPath } from "../json/find.ts";
import { readValue } from "../json/value.ts";
import { SidecarError } from "../mcp/errors.ts";
import {
  isJsonObject,
  type JsonObject,
  MetaKey,
  type NotificationMessage,
  type RequestMessage,
  type SentText,
  Slot,
} from "../mcp/message.ts";
import type { Reservation } from "../memory.ts";
import type { Reply, ReplyTarget } from "../session/reply.ts";
import { Timer } from "../timers.ts";
import type { Calls } from "./calls.ts";
import { internalReply, internalRequest, resultTo, type OpenCall } from "./internal-calls.ts";
import type { Lane } from "./lane.ts";
import { invalidParams } from "./request-check.ts";

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

/** A client's `subscriptions/listen`: a stream of notifications that ends with a result (MCP 2026-07-28, basic/utilities/subscriptions). */
export class Subscription {
  readonly #reply: Reply;
  #onEnd: (() => void) | undefined;
  isEnded = false;

  /** @param onEnd called once at the end, also if the client has left. */
  constructor(reply: Reply, onEnd: () => void) {
    this.#reply = reply;
    this.#onEnd = onEnd;
    reply.onDisconnect = () => this.#finish();
  }

  /** The JSON text of the id, which all its messages have. */
  get idText(): string {
    return this.#reply.idText;
  }

  acknowledge(acceptedText: string): void {
    this.#reply.keepAlive();
    const meta = `"_meta":{${this.#idMember}}`;
    this.#emit(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{${meta},"notifications":${acceptedText}}}`);
  }

  /** Sends a notification of the server with the id of this subscription. */
  notify(text: string): void {
    this.#emit(withSubscriptionId(text, this.idText));
  }

  end(): void {
    this.respond("result", `{"resultType":"complete","_meta":{${this.#idMember}}}`);
  }

  /** Ends the stream with a response of the server. @param text the JSON text of the member. */
  respond(member: "result" | "error", text: string): void {
    if (this.isEnded) return;
    this.#reply.respond(`{"jsonrpc":"2.0","id":${this.idText},"${member}":${text}}`);
    this.#finish();
  }

  /** Begins a stream that has waited for long for its acknowledgement. */
  keepAlive(): void {
    if (!this.isEnded) this.#reply.keepAlive();
  }

  refuse(error: SidecarError): void {
    if (this.isEnded) return;
    this.#reply.fail(error);
    this.#finish();
  }

  get #idMember(): string {
    return `${JSON.stringify(MetaKey.subscriptionId)}:${this.idText}`;
  }

  #emit(text: string): void {
    if (!this.isEnded) this.#reply.emit(text);
  }

  #finish(): void {
    this.isEnded = true;
    this.#onEnd?.();
    this.#onEnd = undefined;
  }
}

/** Returns a notification with this subscription id in the `_meta` of its params. */
function withSubscriptionId(text: string, idText: string): string {
  const params = findMembers(text, 0, ["params"]).spans[0];
  const meta = params === undefined ? undefined : findMembers(text, params.start, ["_meta"]).spans[0];
  if (meta !== undefined && text[meta.start] === "{") {
    return applyEdits(text, setMembers(text, meta.start, [[MetaKey.subscriptionId, idText]]));
  }
  const metaText = `{${JSON.stringify(MetaKey.subscriptionId)}:${idText}}`;
  if (params === undefined) return applyEdits(text, setMembers(text, 0, [["params", `{"_meta":${metaText}}`]]));
  return applyEdits(text, setMembers(text, params.start, [["_meta", metaText]]));
}

const EMPTY: SubscriptionFilter = { lists: new Set(), uris: new Set(), tasks: new Set() };

/** A subscription at a server without sessions. It is opened again at each generation, until the client or the server ends it. */
export class ModernSubscription implements ReplyTarget {
  readonly #subscription: Subscription;
  readonly #context: Context;
  readonly #request: RequestMessage;
  readonly #calls: Calls;
  readonly #memory: Reservation;
  readonly #onEnd: (subscription: ModernSubscription) => void;
  #open: OpenCall | undefined;
  /** The part that the server has acknowledged; undefined before the first acknowledgement. */
  #accepted: SubscriptionFilter | undefined;

  constructor(
    context: Context,
    calls: Calls,
    subscription: Subscription,
    request: RequestMessage,
    memory: Reservation,
    onEnd: (subscription: ModernSubscription) => void,
  ) {
    this.#context = context;
    this.#calls = calls;
    this.#subscription = subscription;
    this.#request = request;
    this.#memory = memory;
    this.#onEnd = onEnd;
  }

  /** The id of its request at the current generation; undefined if there is none. */
  get wireId(): number | undefined {
    return this.#open?.wireId;
  }

  open(): void {
    this.#open = this.#calls.open(internalReply(this.#context, this), this.#request);
  }

  onLost(): void {
    this.#open = undefined;
  }

  onNotification({ method, text, outline }: NotificationMessage): void {
    if (method === "notifications/cancelled") return this.end();
    if (method !== "notifications/subscriptions/acknowledged") return this.#subscription.notify(text);
    const former = this.#accepted;
    const params = outline.start(Slot.params);
    const span = findMembers(text, params, ["notifications"]).spans[0];
    const read = span === undefined ? EMPTY : readFilter({ text, outline });
    this.#accepted = "lists" in read ? read : EMPTY;
    if (former === undefined) this.#subscription.acknowledge(span === undefined ? "{}" : text.slice(span.start, span.end));
    // The client relies on what was acknowledged before the restart.
    else if (contains(this.#accepted, former)) for (const change of listChanges(former.lists)) this.#subscription.notify(change);
    else this.end();
  }

  /** Ends the subscription at the server, because the client has left or the sidecar drains. */
  cancel(): void {
    this.#open?.cancel("the subscription has ended");
    this.#finish();
  }

  /** Ends the subscription gracefully, because the server no longer serves it. */
  end(): void {
    this.#open?.cancel("ended");
    this.#subscription.end();
    this.#finish();
  }

  finish(outcome: string | SidecarError | undefined): undefined {
    if (outcome instanceof SidecarError) {
      this.#open = undefined;
      // If the generation was lost, the next one gets the request again.
      if (outcome.code !== "UPSTREAM_EXITED") this.end();
    } else if (outcome !== undefined) this.#onResponse(outcome);
  }

  #onResponse(text: string): void {
    const [result, error] = findMembers(text, 0, ["result", "error"]).spans;
    if (error !== undefined) this.#subscription.respond("error", text.slice(error.start, error.end));
    else if (result !== undefined) {
      const resultText = text.slice(result.start, result.end);
      const id = findPath(resultText, 0, ["_meta", MetaKey.subscriptionId]);
      const edits = id === undefined ? [] : [{ ...id, text: this.#subscription.idText }];
      this.#subscription.respond("result", applyEdits(resultText, edits));
    }
    this.#finish();
  }

  #finish(): void {
    this.#open = undefined;
    this.#memory.release();
    this.#onEnd(this);
  }
}
