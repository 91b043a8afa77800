import { applyEdits, type Edit, firstMembers } from "../json/edit.ts";
import { findMembers } from "../json/find.ts";
import { type InvalidMessage, type Message, type Reading, readInSteps, type RequestMessage, Slot } from "./message.ts";
import { firstOfParams } from "./rewrite.ts";

/** The headers of a request whose values reach the server in `_meta`, each checked (MCP 2026-07-28, basic, OpenTelemetry trace context). */
export interface TraceContext {
  readonly traceparent: string | undefined;
  /** Undefined without `traceparent`, which it belongs to. */
  readonly tracestate: string | undefined;
  readonly baggage: string | undefined;
}

/** W3C Trace Context §3.2. Zeros are not valid ids, and ff is no version. */
const TRACEPARENT = /^(?!ff)[\da-f]{2}-(?!0{32})[\da-f]{32}-(?!0{16})[\da-f]{16}-[\da-f]{2}$/;
/** An entry of a list may be empty. W3C Trace Context §3.3. */
const TRACESTATE_ENTRY = /^(?:[a-z\d][a-z\d_*/@-]{0,255}=[ -+\--<>-~]{1,256})?$/;
const MAX_TRACESTATE_LENGTH = 512;
/** W3C Baggage §3.2: a key, a value and properties. */
const BAGGAGE_ENTRY = /^[!#$%&'*+\-.^_`|~\da-z]+[ \t]*=[ \t]*(?:[!#-+\--:<-[\]-~]+[ \t]*)?(?:;[!#-+\--:<-[\]-~ \t]*)*$/i;
const MAX_BAGGAGE_LENGTH = 8192;

/** Returns the valid headers of a request; undefined without any. */
export function traceContextOf(headers: Readonly<Record<string, string | readonly string[] | undefined>>): TraceContext | undefined {
  const { traceparent, tracestate, baggage } = headers;
  if (traceparent === undefined && baggage === undefined) return undefined;
  const parent = typeof traceparent === "string" && TRACEPARENT.test(traceparent) ? traceparent : undefined;
  const state = parent === undefined ? undefined : validList(tracestate, MAX_TRACESTATE_LENGTH, TRACESTATE_ENTRY);
  const context = { traceparent: parent, tracestate: state, baggage: validList(baggage, MAX_BAGGAGE_LENGTH, BAGGAGE_ENTRY) };
  return context.traceparent === undefined && context.baggage === undefined ? undefined : context;
}

function validList(text: string | readonly string[] | undefined, maxLength: number, entry: RegExp): string | undefined {
  if (typeof text !== "string" || text === "" || text.length > maxLength) return undefined;
  return text.split(",").every((each) => entry.test(each.trim())) ? text : undefined;
}

/**
 * Adds the trace context of an HTTP request to the `_meta` of its JSON-RPC requests, unless their client has set it there. Notifications have
 * no span of their own. `initialize` is kept, and sent again to later processes.
 */
export function* addTraceContext(reading: Reading, context: TraceContext): Generator<undefined, Reading> {
  if (reading.kind !== "batch") return yield* addToMessage(reading, context);
  const messages: (Message | InvalidMessage)[] = [];
  for (const message of reading.messages) messages.push(yield* addToMessage(message, context));
  return { ...reading, messages };
}

/** The edited text is read again, so that all later edits can rely on its outline. */
function* addToMessage(message: Message | InvalidMessage, context: TraceContext): Generator<undefined, Message | InvalidMessage> {
  const edit = message.kind === "request" && message.method !== "initialize" ? traceEdit(message, context) : undefined;
  if (edit === undefined) return message;
  const edited = yield* readInSteps(applyEdits(message.text, [edit]));
  return edited.kind === "batch" ? message : edited;
}

function traceEdit(request: RequestMessage, context: TraceContext): Edit | undefined {
  const { text, outline } = request;
  const { traceparent, tracestate, baggage } = context;
  if (!outline.has(Slot.meta)) return firstOfParams(request, `"_meta":{${membersText(context)}}`);
  if (!outline.isObject(Slot.meta)) return undefined;
  const start = outline.start(Slot.meta);
  const [ownParent, ownState, ownBaggage] = findMembers(text, start, ["traceparent", "tracestate", "baggage"]).spans;
  // A state is of use only with its parent.
  const isOwn = ownParent !== undefined || ownState !== undefined;
  const added = membersText({
    traceparent: isOwn ? undefined : traceparent,
    tracestate: isOwn ? undefined : tracestate,
    baggage: ownBaggage === undefined ? baggage : undefined,
  });
  return added === "" ? undefined : firstMembers(text, start, added);
}

function membersText(context: TraceContext): string {
  return JSON.stringify(context).slice(1, -1);
}
