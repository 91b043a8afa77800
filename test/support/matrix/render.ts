import type { JsonRpcMessage } from "../json-rpc.ts";
import { META, MODERN_VERSION } from "../modern-client.ts";
import { type Reply, HIDDEN_ID } from "./matrix-client.ts";
import { CLIENT_REASON, WORK } from "./run.ts";
import type { ScriptedServers } from "./scripted-server.ts";

type Meta = Readonly<Record<string, unknown>>;

/** Members whose values are shown. Of others, which are the same in every cell or differ in every run, only the name is. */
const SHOWN = words("action cacheScope isError level logLevel method mode progress protocolVersion resultType ttlMs uri");
const EXPANDED = words(
  "_meta capabilities clientCapabilities elicitation inputRequests inputResponses notifications params question requiredCapabilities",
);
/** What no cell is about, and what an error shows in another way. */
const OMITTED = words("cursor code sent retrySafe action");

/** Requests whose effect is shown instead of their sequence. */
const SUBSCRIBING = words("subscriptions/listen resources/subscribe resources/unsubscribe");

/**
 * Shows what the processes got: the one that started with the sidecar, others, and those that have started during the cell.
 *
 * @param showsSubscriptions true to add what the processes would announce in the end.
 */
export function renderServers({ received, processes, countBefore }: ScriptedServers, showsSubscriptions: boolean): string {
  const texts = processes.flatMap(({ number, subscribed }) => {
    const role = number === 1 ? "first" : number <= countBefore ? "other" : "new";
    const messages = received.filter((each) => each.process === number).map(({ message }) => message);
    const requests = messages.filter(isShown).map((message) => sentToServer(message, messages));
    const shown = requests.filter((text) => text !== "");
    const subscriptions = showsSubscriptions && subscribed.length > 0 ? [`subscribed to ${subscribed.join("+")}`] : [];
    const parts = [...shown, ...subscriptions];
    return parts.length === 0 ? [] : [`${role}: ${parts.join(", ")}`];
  });
  return texts.length === 0 ? "nothing" : texts.join("; ");
}

/** The sidecar itself lists tools and pings when it needs to. */
function isShown({ method = "", params }: JsonRpcMessage): boolean {
  return !SUBSCRIBING.has(method) && (!["tools/list", "ping"].includes(method) || params?.["cursor"] === "cell");
}

function sentToServer(message: JsonRpcMessage, all: readonly JsonRpcMessage[]): string {
  const { method, params = {} } = message;
  if (method === undefined) return `answer ${response(message)}`;
  if (method !== "notifications/cancelled") return `${method}${paramsText(params)}`;
  const target = all.find(({ id, method: other }) => id === params["requestId"] && other !== undefined);
  // Otherwise, it is a subscription from before the cell.
  if (target === undefined || SUBSCRIBING.has(target.method ?? "")) return "";
  return `cancelled(${target.method}${params["reason"] === CLIENT_REASON ? " with the client's reason" : ""})`;
}

/** Shows the params of a request. Of the `_meta`, what 2026 demands of each request is `[2026]`. A whole tool call is not shown. */
function paramsText({ _meta = {}, name, arguments: args, ...params }: Readonly<Record<string, unknown>>): string {
  const work = name === WORK.name && JSON.stringify(args) === JSON.stringify(WORK.arguments) ? {} : { name, arguments: args };
  const own = members({ ...params, ...(name === undefined ? {} : work) });
  const { [META.protocolVersion]: version, [META.clientCapabilities]: capabilities = {}, [META.clientInfo]: info, ...rest } = _meta as Meta;
  const dialect = version === undefined ? "" : version === MODERN_VERSION ? "2026" : JSON.stringify(version);
  const odd = (version === undefined) === (info === undefined) ? "" : info === undefined ? "no clientInfo" : "clientInfo";
  const parts = [dialect, odd, members(capabilities as object).slice(1, -1), members(rest).slice(1, -1)].filter((part) => part !== "");
  return parts.length === 0 ? own : `${own}[${parts.join(" ")}]`;
}

export function renderReply({ title, head, messages, state, id, progressToken }: Reply): string {
  const shown = messages.filter((message) => !String(message.id).startsWith(HIDDEN_ID));
  const texts = shown.map((message) => sentToClient(message, id, progressToken));
  const hasResponse = messages.some((message) => message.method === undefined);
  const isPlain = state === "ended" && (hasResponse || !head.includes("stream"));
  const parts = [head, ...texts, ...(isPlain ? [] : [state === "waiting" ? "no response" : state])];
  return `${title}: ${parts.filter((part) => part !== "").join(", ")}`;
}

function sentToClient(message: JsonRpcMessage, id: unknown, progressToken: unknown): string {
  const { method, params = {} } = message;
  if (method === undefined) {
    const owner = message.id === id || id === undefined ? "" : message.id === undefined ? "without an id: " : "of another request: ";
    return `${owner}${response(message)}`;
  }
  if (message.id !== undefined) return `asks ${method}${members(params)}`;
  const foreign =
    method === "notifications/progress" && id !== undefined && params["progressToken"] !== progressToken ? " with a foreign token" : "";
  return `${method.replace("notifications/", "")}${members(params)}${foreign}`;
}

function response({ result, error }: JsonRpcMessage): string {
  if (error === undefined) return `result${members(result ?? {})}`;
  const { code, sent, retrySafe } = error.data ?? {};
  const own = code === undefined ? "" : ` ${code as string} ${sent === true ? "sent" : "unsent"} ${retrySafe === true ? "safe" : "unsafe"}`;
  return `error ${error.code}${own}${members(error.data ?? {})}`;
}

/** Shows the members of an object, without those that are shown elsewhere. */
function members(value: object): string {
  const isError = "sent" in value;
  const texts = Object.entries(value)
    .filter(([name]) => !OMITTED.has(name) || (name === "action" && !isError))
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, member]) => memberText(name, member));
  return texts.length === 0 ? "" : `{${texts.join(" ")}}`;
}

function memberText(name: string, value: unknown): string {
  const short = name.replace("io.modelcontextprotocol/", "");
  const isNested = typeof value === "object" && value !== null && !Array.isArray(value);
  if (isNested) return EXPANDED.has(short) ? `${short}${members(value)}` : short;
  const text = Array.isArray(value) ? (value[0] as { readonly text?: unknown } | undefined)?.text : undefined;
  if (typeof text === "string") return `${short}=${text}`;
  if (Array.isArray(value) && value.length > 0 && value.every((each) => typeof each === "string")) return `${short}=${value.join("+")}`;
  return SHOWN.has(short) || typeof value === "boolean" ? `${short}=${String(value)}` : short;
}

function words(text: string): ReadonlySet<string> {
  return new Set(text.split(" "));
}
