import { applyEdits, type Edit, firstMembers, objectText, removeItems, removeMember, removeMembers, setMembers } from "../json/edit.ts";
import { findElements, findMembers, findPath, stringOf, textOf } from "../json/read.ts";
import { copied, detached, shorten, skipValue, type Span, walk } from "../json/text.ts";
import { AskKind, type AskKinds, capabilitiesFor, capabilitiesOf, declaredKinds, isSubset } from "./capabilities.ts";
import { checkClientMessage } from "./client-message.ts";
import { invalidParams, JsonRpcErrorCode, SidecarError } from "./errors.ts";
import {
  LOG_LEVELS,
  MetaKey,
  MODERN_PROTOCOL_VERSIONS,
  NEWEST_MODERN_PROTOCOL_VERSION,
  readMessage,
  type RequestMessage,
  type ResponseMessage,
  type SentText,
  Slot,
} from "./message.ts";
import { editsOf, firstOfParams } from "./rewrite.ts";

// The translation of messages between the eras: `legacy` has sessions, `modern` has none. The handshake, requests, results, errors and notifications
// follow, each in both directions. Within an era, messages pass byte for byte, except for a few members of the handshake.

/** Its tasks are not those of a session (MCP 2026-07-28, extension tasks). */
const TASKS_EXTENSION = "io.modelcontextprotocol/tasks";
/** Some peers lack the required info. */
const UNKNOWN_INFO = '{"name":"unknown","version":"0"}';
/** A longer info, such as one with icons, is shortened to the name and the version. In characters of JSON. */
const LONG_INFO_LENGTH = 128;
const MAX_INFO_LENGTH = 512;

/** Translates the result of the handshake (MCP 2026-07-28, server/discover). */
export function discoverResult(resultText: string, era: "legacy" | "modern"): string {
  const versions = ["supportedVersions", JSON.stringify(MODERN_PROTOCOL_VERSIONS)] as const;
  if (era === "modern") return applyEdits(resultText, setMembers(resultText, 0, [versions]));
  const [instructions, serverInfo] = findMembers(resultText, 0, ["instructions", "serverInfo"]).spans;
  return objectText([
    ["resultType", '"complete"'],
    versions,
    ["capabilities", translatedCapabilities(resultText)],
    ["instructions", textOf(resultText, instructions)],
    ...CACHE_HINTS,
    ["_meta", serverInfo && objectText([[MetaKey.serverInfo, textOf(resultText, serverInfo)]])],
  ]);
}

/**
 * Translates the result of the handshake of a shared server. The revision is negotiated with each client. `tasks.list` is removed, because a
 * shared server cannot identify its requestors (MCP 2025-11-25, basic/utilities/tasks).
 */
export function initializeResult(resultText: string, era: "legacy" | "modern", protocolVersion: string): string {
  const version = JSON.stringify(protocolVersion);
  if (era === "legacy") {
    const tasks = findPath(resultText, 0, ["capabilities", "tasks"]);
    const edits = removeMember(resultText, tasks?.start ?? -1, "list");
    return applyEdits(resultText, [...edits, ...setMembers(resultText, 0, [["protocolVersion", version]])]);
  }
  const instructions = textOf(resultText, findPath(resultText, 0, ["instructions"]));
  const serverInfo = textOf(resultText, findPath(resultText, 0, ["_meta", MetaKey.serverInfo]));
  return objectText([
    ["protocolVersion", version],
    ["capabilities", translatedCapabilities(resultText)],
    ["serverInfo", isImplementation(serverInfo) ? serverInfo : UNKNOWN_INFO],
    ["instructions", instructions?.startsWith('"') === true ? instructions : undefined],
  ]);
}

/** All but tasks, which differ in each era. */
function translatedCapabilities(resultText: string): string {
  const text = textOf(resultText, findPath(resultText, 0, ["capabilities"]));
  if (text?.startsWith("{") !== true) return "{}";
  const withoutTasks = applyEdits(text, removeMember(text, 0, "tasks"));
  const extensions = findPath(withoutTasks, 0, ["extensions"]);
  return applyEdits(withoutTasks, removeMember(withoutTasks, extensions?.start ?? -1, TASKS_EXTENSION));
}

function isImplementation(text: string | undefined): text is string {
  return (
    text?.startsWith("{") === true &&
    findMembers(text, 0, ["name", "version"]).spans.every((span) => span !== undefined && text[span.start] === '"')
  );
}

/** @returns undefined without a name or version, or if these are too long. */
function shortInfo(info: string | undefined): string | undefined {
  if (!isImplementation(info)) return undefined;
  const [name, version] = findMembers(info, 0, ["name", "version"]).spans.map((span) => textOf(info, span));
  const short = info.length <= LONG_INFO_LENGTH ? info : `{"name":${name},"version":${version}}`;
  return short.length <= MAX_INFO_LENGTH ? copied(short) : undefined;
}

/** Each result of a server with sessions has this text. */
let lastServerInfo: { readonly initialized: string; readonly info: string | undefined } | undefined;

export function serverInfoOf(initialized: string): string | undefined {
  if (lastServerInfo?.initialized !== initialized)
    lastServerInfo = { initialized, info: shortInfo(textOf(initialized, findPath(initialized, 0, ["serverInfo"]))) };
  return lastServerInfo.info;
}

export function clientInfoOf({ text, outline }: RequestMessage): string | undefined {
  return shortInfo(textOf(text, findPath(text, outline.start(Slot.params), ["clientInfo"])));
}

/**
 * Returns an `initialize` with the claims, in place of the one that the client has sent to another replica. Undefined if the claims are not
 * valid: a client that knows the key can sign any.
 */
export function initializeOf(claims: {
  readonly protocolVersion: string;
  readonly capabilitiesText: string;
  readonly clientInfoText: string;
}): RequestMessage | undefined {
  const { protocolVersion, capabilitiesText, clientInfoText } = claims;
  // The brackets of each must match by themselves. The whole is checked below.
  if (![capabilitiesText, clientInfoText].every((text) => /^(?:\{|$)/.test(text) && skipValue(text, 0) === text.length)) return undefined;
  const params = objectText([
    ["protocolVersion", JSON.stringify(protocolVersion)],
    ["capabilities", capabilitiesText === "" ? "{}" : capabilitiesText],
    ["clientInfo", clientInfoText === "" ? UNKNOWN_INFO : clientInfoText],
  ]);
  const message = checkClientMessage(readMessage(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":${params}}`));
  return "kind" in message && message.kind === "request" ? message : undefined;
}

/** What `_meta` says about one request without a session. */
export interface Envelope {
  readonly declared: AskKinds;
  /** Undefined for no log messages. */
  readonly logLevel: string | undefined;
  /** They remove the reserved keys, relative to `_meta`. */
  readonly reserved: readonly Edit[];
}

const RESERVED_PREFIX = "io.modelcontextprotocol/";
const MAX_KEPT_LENGTH = 1024;
/** A client sends the same `_meta` with each request, and a comparison is much cheaper than a search. */
let lastMeta: { readonly text: string; readonly envelope: Envelope } | undefined;

export function readEnvelope({ text, outline }: RequestMessage): Envelope | SidecarError {
  const meta = outline.textAt(Slot.meta);
  if (meta?.startsWith("{") !== true) return invalidParams('"_meta" is missing in the params');
  if (lastMeta?.text === meta) return lastMeta.envelope;
  const { spans, double } = findMembers(meta, 0, [MetaKey.clientCapabilities, MetaKey.logLevel]);
  const [capabilities, level] = spans;
  if (outline.stringAt(Slot.metaVersion) === undefined) return missing(MetaKey.protocolVersion, outline.has(Slot.metaVersion));
  if (double !== undefined) return invalidParams(`"${double}" is ambiguous in "_meta"`);
  if (capabilities === undefined || meta[capabilities.start] !== "{")
    return missing(MetaKey.clientCapabilities, capabilities !== undefined);
  const logLevel = stringOf(meta, level);
  if (level !== undefined && (logLevel === undefined || !LOG_LEVELS.includes(logLevel))) {
    return invalidParams(`"${MetaKey.logLevel}" must be one of ${LOG_LEVELS.join(", ")}`);
  }
  const reserved = removeMembers(meta, 0, (name) => name.startsWith(RESERVED_PREFIX));
  const envelope = { declared: declaredKinds(meta, capabilities.start), logLevel, reserved };
  if (meta.length <= MAX_KEPT_LENGTH) lastMeta = { text: detached(meta, text), envelope };
  return envelope;
}

function missing(key: string, isPresent: boolean): SidecarError {
  return invalidParams(`"${key}" ${isPresent ? "has the wrong type" : "is missing"} in "_meta"`);
}

/** MCP 2026-07-28, basic/utilities/mrtr. A server with sessions has asked no questions. */
const RETRY_PARAMS: ReadonlySet<string> = new Set(["inputResponses", "requestState"]);

/**
 * Returns the request as a server with sessions gets it: without reserved keys and answers to questions. All other bytes stay, such as progress tokens and
 * trace keys.
 */
export function requestToLegacyServer(request: RequestMessage, { reserved }: Envelope): RequestMessage {
  const { text, outline } = request;
  const at = outline.start(Slot.meta);
  const edits = reserved.map((edit) => ({ start: at + edit.start, end: at + edit.end, text: edit.text }));
  if (outline.has(Slot.inputResponses) || outline.has(Slot.repeatedState)) {
    edits.push(...removeMembers(text, outline.start(Slot.params), (name) => RETRY_PARAMS.has(name)));
  }
  return { ...request, edits };
}

/** The `_meta` of each request of a session for a server without them (MCP 2026-07-28, basic, per-request protocol fields). */
export interface SessionEnvelope {
  readonly declared: AskKinds;
  readonly keys: readonly (readonly [name: string, valueText: string])[];
}

export function sessionEnvelopeOf(initialize: RequestMessage): SessionEnvelope {
  const capabilities = capabilitiesOf(initialize);
  const declared = capabilities === undefined ? 0 : declaredKinds(initialize.text, capabilities.start);
  const keys = [
    [MetaKey.protocolVersion, JSON.stringify(NEWEST_MODERN_PROTOCOL_VERSION)],
    [MetaKey.clientCapabilities, JSON.stringify(capabilitiesFor(declared))],
    [MetaKey.clientInfo, clientInfoOf(initialize) ?? UNKNOWN_INFO],
  ] as const;
  return { declared, keys };
}

/** In place of a level that a client of a session has put into its request. Hardly any has. */
const QUIET_LEVEL = "emergency";

export function logLevelOf({ text, outline }: RequestMessage, level: string | undefined): string | undefined {
  if (level !== undefined || !outline.has(Slot.meta)) return level;
  return findPath(text, outline.start(Slot.meta), [MetaKey.logLevel]) && QUIET_LEVEL;
}

export function isAmbiguous({ text, outline }: RequestMessage): boolean {
  return outline.has(Slot.meta) && findMembers(text, outline.start(Slot.meta), Object.values(MetaKey)).double !== undefined;
}

/**
 * Returns the request as a server without sessions gets it. Reserved keys of the client are overwritten. @param params more members as JSON text; empty for
 * none.
 */
export function requestToModernServer(
  request: RequestMessage,
  { keys }: SessionEnvelope,
  level: string | undefined,
  params = "",
): RequestMessage {
  const { text, outline } = request;
  const all = level === undefined ? keys : [...keys, [MetaKey.logLevel, JSON.stringify(level)] as const];
  const hasMeta = outline.has(Slot.meta);
  const added = [hasMeta ? "" : `"_meta":${objectText(all)}`, params].filter((part) => part !== "").join(",");
  const edit = added === "" ? undefined : firstOfParams(request, added);
  const edits = hasMeta ? setMembers(text, outline.start(Slot.meta), all) : [];
  return { ...request, edits: edit === undefined ? edits : [edit, ...edits] };
}

/**
 * Undefined for an error. @param response the server's message, if the body differs from it in the id only: it has been read already.
 */
export function findResult(body: string, idText: string, response: ResponseMessage | undefined): ResponseMessage | undefined {
  const message = response ?? readMessage(body);
  if (message.kind !== "response" || !message.outline.has(Slot.result)) return undefined;
  return response === undefined ? message : { ...response, edits: editsOf(response, idText, Slot.id) };
}

/** The types of the revision, and the one of its extension for tasks. */
const MODERN_TYPES: ReadonlySet<string> = new Set(["complete", "input_required", "task"]);
const SESSION_TYPES: ReadonlySet<string> = new Set(["complete"]);

/** A client must not take a result of an unknown type for a complete one (MCP 2026-07-28, basic, ResultType). */
export function checkResultType({ outline }: ResponseMessage, known = MODERN_TYPES): SidecarError | undefined {
  const type = outline.textAt(Slot.resultType);
  if (type === undefined || known.has(outline.stringAt(Slot.resultType) ?? "")) return undefined;
  const message = `The MCP server answered with a result of the type ${shorten(type)}, which this request cannot have. The request was sent and may have taken effect.`;
  return new SidecarError("UNKNOWN_RESULT_TYPE", message, { sent: true });
}

/** MCP 2026-07-28, extension io.modelcontextprotocol/tasks. Undefined if the result begins no task. */
export function createdTask({ text, outline }: ResponseMessage): string | undefined {
  if (outline.stringAt(Slot.resultType) !== "task") return undefined;
  return stringOf(text, findPath(text, outline.start(Slot.result), ["taskId"])) ?? outline.stringAt(Slot.taskId);
}

/** MCP 2026-07-28, basic/utilities/mrtr. */
export const ASKING_METHODS: ReadonlySet<string> = new Set(["tools/call", "prompts/get", "resources/read"]);

export function inputRequired(questions: readonly string[], serverInfo: string | undefined, state?: string): string {
  return objectText([
    ["resultType", '"input_required"'],
    ["inputRequests", `{${questions.join(",")}}`],
    ["requestState", state && JSON.stringify(state)],
    ["_meta", serverInfo && objectText([[MetaKey.serverInfo, serverInfo]])],
  ]);
}

/** MCP 2026-07-28, server/utilities/caching. */
const CACHEABLE_METHODS = /^(?:(?:tools|prompts|resources|resources\/templates)\/list|resources\/read)$/;
/** A result may change at any time, and is not known to be the same for all clients. */
const CACHE_HINTS: readonly (readonly [name: string, valueText: string])[] = [
  ["ttlMs", "0"],
  ["cacheScope", '"private"'],
];

/**
 * Adapts the response of a server with sessions to a request without one. This concerns the type, server info, cache hints of lists and
 * resources, and error codes with another meaning (MCP 2026-07-28, basic).
 * @param client may declare something else with a later request for the same call.
 */
export function transformToModernClient(
  { method, outline }: RequestMessage,
  client: Pick<Envelope, "declared">,
  serverInfo: string | undefined,
) {
  const uriText = outline.copyAt(Slot.uri);
  return (body: string, idText: string, response?: ResponseMessage): string => {
    const found = findResult(body, idText, response);
    if (found !== undefined) {
      const { text, edits = [] } = found;
      return found.outline.firstAt(Slot.result) === "{" ? applyEdits(text, [...edits, ...resultEdits(found, method, serverInfo)]) : body;
    }
    const error = findPath(body, 0, ["error"]);
    if (error === undefined) return body;
    const canVisit = isSubset(AskKind.url, client.declared);
    const questions = canVisit && ASKING_METHODS.has(method) ? urlQuestions(body, error) : [];
    if (questions.length > 0) return `{"jsonrpc":"2.0","id":${idText},"result":${inputRequired(questions, serverInfo)}}`;
    return applyEdits(body, errorEdits(body, error, uriText, canVisit));
  };
}

function resultEdits({ text, outline }: ResponseMessage, method: string, serverInfo: string | undefined): Edit[] {
  const start = outline.start(Slot.result);
  const [resultType, meta] = [outline.span(Slot.resultType), outline.span(Slot.resultMeta)];
  const isCacheable = CACHEABLE_METHODS.test(method);
  if (resultType === undefined && meta === undefined && !isCacheable) {
    // Nearly all results of calls, at less than half of the cost.
    const metaMember = serverInfo === undefined ? "" : `,"_meta":{"${MetaKey.serverInfo}":${serverInfo}}`;
    return [firstMembers(text, start, `"resultType":"complete"${metaMember}`)];
  }
  const members: (readonly [name: string, valueText: string])[] = [["resultType", '"complete"']];
  if (serverInfo !== undefined) members.push(["_meta", metaWith(text, meta, MetaKey.serverInfo, serverInfo)]);
  if (isCacheable) members.push(...CACHE_HINTS);
  const edits = setMembers(text, start, members, isCacheable ? undefined : [resultType, meta]);
  return method === "tools/list" ? [...edits, ...taskEdits(text, start)] : edits;
}

/**
 * Removes tools that run only as tasks, and what is about tasks from others. A client without a session cannot use the tasks of a server
 * with sessions (MCP 2025-11-25, basic/utilities/tasks).
 */
function taskEdits(body: string, resultAt: number): Edit[] {
  const tools = findPath(body, resultAt, ["tools"]);
  if (tools === undefined || body[tools.start] !== "[" || !body.includes('"taskSupport"')) return [];
  const items = findElements(body, tools.start).map(({ start, end }) => {
    const isKept = stringOf(body, findPath(body, start, ["execution", "taskSupport"])) !== "required";
    return { start, end, isKept };
  });
  const kept = items.filter(({ isKept }) => isKept);
  return [...removeItems(items), ...kept.flatMap(({ start }) => removeMember(body, start, "execution"))];
}

/** MCP 2026-07-28, key changes. */
const NEW_MEMBERS: ReadonlySet<string> = new Set(["resultType", "ttlMs", "cacheScope"]);

/** Returns the response as a client of a session reads it. */
export function responseForSession(body: string, idText: string, method: string, response?: ResponseMessage): string | SidecarError {
  const found = findResult(body, idText, response);
  if (found?.outline.firstAt(Slot.result) !== "{") return body;
  const error = checkResultType(found, SESSION_TYPES);
  if (error !== undefined) return error;
  const { text, outline, edits = [] } = found;
  const start = outline.start(Slot.result);
  const ofResult = removeMetaKey(text, start, outline.span(Slot.resultMeta), MetaKey.serverInfo, NEW_MEMBERS);
  const ofMethod = method === "tools/call" ? structuredEdits(text, start) : method === "tools/list" ? outputSchemaEdits(text, start) : [];
  return ofResult.length + ofMethod.length === 0 ? body : applyEdits(text, edits.concat(ofResult, ofMethod));
}

/** In a session, structured content is an object (MCP 2025-11-25, schema, CallToolResult). */
function structuredEdits(text: string, result: number): Edit[] {
  const span = findPath(text, result, ["structuredContent"]);
  if (span === undefined || text[span.start] === "{") return [];
  return [{ ...span, text: `{"result":${text.slice(span.start, span.end)}}` }];
}

/** Any other schema would not describe the wrapped value. */
function outputSchemaEdits(text: string, result: number): Edit[] {
  const tools = findPath(text, result, ["tools"]);
  const edits: Edit[] = [];
  if (tools === undefined || text[tools.start] !== "[") return edits;
  walk(text, tools.start, (start) => {
    const schema = findPath(text, start, ["outputSchema"]);
    const type = schema && textOf(text, findPath(text, schema.start, ["type"]));
    if (schema !== undefined && type !== '"object"') for (const edit of removeMember(text, start, "outputSchema")) edits.push(edit);
  });
  return edits;
}

/** Only revisions with sessions have these errors. */
const RESOURCE_NOT_FOUND = -32002;
const URL_REQUIRED = -32042;
const FIRST_RESERVED_CODE = -32099;
const LAST_RESERVED_CODE = -32020;
const MAX_URLS = 16;

/** @param uriText undefined for all but `resources/read`. @param canVisit true if the client can send its user to a URL. */
function errorEdits(text: string, error: Span, uriText: string | undefined, canVisit: boolean): Edit[] {
  const code = Number(textOf(text, findPath(text, error.start, ["code"])));
  const replace = (to: number, data: string | undefined): Edit[] =>
    setMembers(text, error.start, [["code", String(to)], ...(data === undefined ? [] : [["data", data] as const])]);
  if (code === RESOURCE_NOT_FOUND) return replace(JsonRpcErrorCode.InvalidParams, uriText && `{"uri":${uriText}}`);
  if (code === URL_REQUIRED && !canVisit) {
    return replace(JsonRpcErrorCode.MissingCapability, '{"requiredCapabilities":{"elicitation":{"url":{}}}}');
  }
  if (!(code >= FIRST_RESERVED_CODE && code <= LAST_RESERVED_CODE)) return [];
  return replace(JsonRpcErrorCode.InternalError, `{"original":${textOf(text, error)}}`);
}

/**
 * Asks the client to send its user to the URLs of an error (MCP 2025-11-25, client/elicitation, URL mode). The client repeats the request
 * afterwards.
 */
function urlQuestions(body: string, error: Span): string[] {
  const list = findPath(body, error.start, ["data", "elicitations"]);
  const code = textOf(body, findPath(body, error.start, ["code"]));
  if (Number(code) !== URL_REQUIRED || list === undefined || body[list.start] !== "[") return [];
  return findElements(body, list.start, MAX_URLS).map((span, index) => {
    const params = body.slice(span.start, span.end);
    const edited = params.startsWith("{") ? applyEdits(params, removeMember(params, 0, "elicitationId")) : "{}";
    return `"url-${index + 1}":{"method":"elicitation/create","params":${edited}}`;
  });
}

export function withSubscriptionId(text: string, idText: string): string {
  const params = findPath(text, 0, ["params"]);
  const meta = params && findPath(text, params.start, ["_meta"]);
  const metaMember = ["_meta", metaWith(text, meta, MetaKey.subscriptionId, idText)] as const;
  const edits =
    params === undefined
      ? setMembers(text, 0, [["params", objectText([metaMember])]])
      : setMembers(text, params.start, [metaMember], [meta]);
  return applyEdits(text, edits);
}

export function withoutSubscriptionId({ text, outline }: SentText): string {
  if (!outline.has(Slot.subscriptionId)) return text;
  return applyEdits(text, removeMetaKey(text, outline.start(Slot.params), outline.span(Slot.meta), MetaKey.subscriptionId));
}

function metaWith(text: string, meta: Span | undefined, key: string, valueText: string): string {
  const present = textOf(text, meta);
  if (present?.startsWith("{") !== true) return objectText([[key, valueText]]);
  return applyEdits(present, setMembers(present, 0, [[key, valueText]]));
}

/** Removes a key of `_meta`, or `_meta` itself if no key is left. @param others further members of the object to remove. */
function removeMetaKey(text: string, object: number, meta: Span | undefined, key: string, others?: ReadonlySet<string>): Edit[] {
  let keptKeys = 0;
  const isRemoved = (name: string): boolean => {
    if (name !== key) keptKeys++;
    return name === key;
  };
  const ofMeta = removeMembers(text, meta?.start ?? -1, isRemoved);
  const isEmpty = ofMeta.length > 0 && keptKeys === 0;
  const ofObject = removeMembers(text, object, (name) => others?.has(name) === true || (isEmpty && name === "_meta"));
  return isEmpty ? ofObject : [...ofObject, ...ofMeta];
}
