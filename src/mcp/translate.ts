import { applyEdits, type Edit, firstMembers, objectText, removeItems, removeMember, removeMembers, setMembers } from "../json/edit.ts";
import { findElements, findMembers, findPath, stringOf, textOf } from "../json/find.ts";
import { copied, detached, shorten, skipValue, type Span, walkElements } from "../json/text.ts";
import { readValue } from "../json/value.ts";
import { AskKind, type AskKinds, capabilitiesFor, declaredKinds, isSubset } from "./capabilities.ts";
import { invalidParams, JsonRpcErrorCode, SidecarError } from "./errors.ts";
import { LOG_LEVELS, MetaKey, type RequestMessage, type ResponseMessage, Slot } from "./message.ts";
import { editsOf, firstOfParams } from "./rewrite.ts";
import { MODERN_PROTOCOL_VERSIONS, NEWEST_MODERN_PROTOCOL_VERSION } from "./versions.ts";

/** The methods in whose result a server may ask the client (MCP 2026-07-28, basic/utilities/mrtr). */
export const ASKING_METHODS: ReadonlySet<string> = new Set(["tools/call", "prompts/get", "resources/read"]);

/** A longer text is not kept. In UTF-16 units. */
const MAX_LENGTH = 1024;

/** Keeps the value of the last text: a client sends the same text with each of its messages, and a comparison is much cheaper than a search. */
class LastText<Value extends object> {
  readonly #read: (text: string) => Value;
  #last: { readonly text: string; readonly value: Value } | undefined;

  /** @param read returns the value of a text, which must not be changed. */
  constructor(read: (text: string) => Value) {
    this.#read = read;
  }

  /** Returns the value of a part of a text. */
  valueAt(text: string, { start, end }: Span): Value {
    const part = text.slice(start, end);
    if (this.#last?.text === part) return this.#last.value;
    const value = this.#read(part);
    if (part.length <= MAX_LENGTH) this.#last = { text: detached(part, text), value };
    return value;
  }
}

/** The members of `_meta` that apply to one request. */
export interface Envelope {
  /** The questions that the client can answer. */
  readonly declared: AskKinds;
  /** The least severe log messages that the client wants during the request; undefined for none. */
  readonly logLevel: string | undefined;
}

const ENVELOPES = new LastText(readMeta);

export function readEnvelope({ text, outline }: RequestMessage): Envelope | SidecarError {
  const meta = outline.span(Slot.meta);
  if (meta === undefined || !outline.isObject(Slot.meta)) return invalidParams('"_meta" is missing in the params');
  if (outline.stringAt(Slot.metaVersion) === undefined)
    return invalidParams(missing(MetaKey.protocolVersion, outline.has(Slot.metaVersion)));
  const read = ENVELOPES.valueAt(text, meta);
  return "problem" in read ? invalidParams(read.problem) : read;
}

/** @param text the JSON text of `_meta`. */
function readMeta(text: string): Envelope | { readonly problem: string } {
  const { spans, duplicate } = findMembers(text, 0, [MetaKey.clientCapabilities, MetaKey.logLevel]);
  const [capabilities, level] = spans;
  if (duplicate !== undefined) return { problem: `"${duplicate}" occurs twice in "_meta"` };
  if (capabilities === undefined || text[capabilities.start] !== "{") {
    return { problem: missing(MetaKey.clientCapabilities, capabilities !== undefined) };
  }
  const logLevel = stringOf(text, level);
  if (level !== undefined && (logLevel === undefined || !LOG_LEVELS.includes(logLevel))) {
    return { problem: `"${MetaKey.logLevel}" must be one of ${LOG_LEVELS.join(", ")}` };
  }
  return { declared: declaredKinds(text, capabilities.start), logLevel };
}

function missing(key: string, isPresent: boolean): string {
  return `"${key}" ${isPresent ? "has the wrong type" : "is missing"} in "_meta"`;
}

/** A response with a result, and the parts of the result that are checked or changed for a client of the other era. */
export interface FoundResult {
  readonly text: string;
  /** The edits that the text needs for the client in any case. */
  readonly edits: readonly Edit[];
  readonly result: Span;
  readonly resultType: Span | undefined;
  readonly meta: Span | undefined;
  readonly requestState: Span | undefined;
}

/**
 * Finds the result of a response.
 *
 * @param response the server's message, if the body differs from it in the id only. It has been searched already; a result may be long.
 * @returns undefined for an error.
 */
export function findResult(body: string, idText: string, response: ResponseMessage | undefined): FoundResult | undefined {
  if (response === undefined) {
    const [result] = findMembers(body, 0, ["result"]).spans;
    if (result === undefined) return undefined;
    const [resultType, meta, requestState] =
      body[result.start] === "{" ? findMembers(body, result.start, ["resultType", "_meta", "requestState"]).spans : [];
    return { text: body, edits: [], result, resultType, meta, requestState };
  }
  const { outline, text } = response;
  const result = outline.span(Slot.result);
  if (result === undefined) return undefined;
  return {
    text,
    edits: editsOf(response, idText, Slot.id),
    result,
    resultType: outline.span(Slot.resultType),
    meta: outline.span(Slot.resultMeta),
    requestState: outline.span(Slot.requestState),
  };
}

/**
 * Returns the edits that remove a key of `_meta`, or all of `_meta` if it has no other key.
 *
 * @param object position of the object that has `_meta`.
 * @param meta the value of `_meta`; undefined for none.
 * @param others members of the object to remove besides.
 */
export function removeMetaKey(text: string, object: number, meta: Span | undefined, key: string, others?: ReadonlySet<string>): Edit[] {
  let keptKeys = 0;
  const isRemoved = (name: string): boolean => {
    if (name !== key) keptKeys++;
    return name === key;
  };
  const ofMeta = meta === undefined || text[meta.start] !== "{" ? [] : removeMembers(text, meta.start, isRemoved);
  const isEmpty = ofMeta.length > 0 && keptKeys === 0;
  const ofObject = removeMembers(text, object, (name) => others?.has(name) === true || (isEmpty && name === "_meta"));
  return isEmpty ? ofObject : [...ofObject, ...ofMeta];
}

/** The types of results that a client can handle: those of the revision, and that of its extension for tasks. */
const KNOWN_TYPES: ReadonlySet<string> = new Set(["complete", "input_required", "task"]);

/**
 * Checks the type of a server's result. A client must not take a result of another type for a complete one (MCP 2026-07-28, basic,
 * ResultType).
 *
 * @returns the error in place of the response; undefined if its result has a known type or none.
 */
export function checkResultType({ text, resultType: span }: FoundResult): SidecarError | undefined {
  if (span === undefined || KNOWN_TYPES.has(stringOf(text, span) ?? "")) return undefined;
  const message = `The MCP server answered with a result of an unknown type: ${shorten(text.slice(span.start, span.end))}. The request was sent and may have taken effect.`;
  return new SidecarError("UNKNOWN_RESULT_TYPE", message, { sent: true });
}

const SERVER_INFO_NAME = JSON.stringify(MetaKey.serverInfo);

/** The name and version of a server with sessions, which each result gets. */
export interface ServerInfo {
  /** The JSON text of its `serverInfo`; undefined if it has none. */
  readonly text: string | undefined;
  /** The members that a result gets if it has none of them. */
  readonly membersText: string;
}

/** Returns a result that asks the client for input, with these members after its questions. */
export function inputRequired(questions: readonly string[], { text }: ServerInfo, state?: string): string {
  const stateText = state === undefined ? "" : `,"requestState":${JSON.stringify(state)}`;
  const meta = text === undefined ? "" : `,"_meta":{${SERVER_INFO_NAME}:${text}}`;
  return `{"resultType":"input_required","inputRequests":{${questions.join(",")}}${stateText}${meta}}`;
}

const RESERVED_PREFIX = "io.modelcontextprotocol/";
/** The edits that remove the reserved keys, relative to `_meta`. */
const RESERVED_EDITS = new LastText((text) => removeMembers(text, 0, (name) => name.startsWith(RESERVED_PREFIX)));
/** The params of a request that answers questions (MCP 2026-07-28, basic/utilities/mrtr). A server with sessions has asked none. */
const RETRY_PARAMS: ReadonlySet<string> = new Set(["inputResponses", "requestState"]);

/**
 * Returns a request of a stateless client as a server with sessions gets it: without the reserved keys of `_meta` and without answers to
 * questions. All other bytes stay, such as progress tokens and trace keys.
 */
export function requestToLegacyServer(request: RequestMessage): RequestMessage {
  const { text, outline } = request;
  const edits: Edit[] = [];
  if (outline.has(Slot.inputResponses) || outline.has(Slot.repeatedState)) {
    edits.push(...removeMembers(text, outline.start(Slot.params), (name) => RETRY_PARAMS.has(name)));
  }
  const meta = outline.span(Slot.meta);
  if (meta !== undefined) {
    for (const { start, end, text: added } of RESERVED_EDITS.valueAt(text, meta)) {
      edits.push({ start: meta.start + start, end: meta.start + end, text: added });
    }
  }
  return { ...request, edits };
}

/** The longest name and version that are part of each message. In characters of JSON. */
const MAX_INFO_LENGTH = 512;

/** Returns the JSON text of a `clientInfo` or `serverInfo`. Of a long one, such as one with icons, name and version; undefined if these are too long. */
function shortInfo(info: string): string | undefined {
  if (info.length <= MAX_INFO_LENGTH) return info;
  const [name, version] = findMembers(info, 0, ["name", "version"]).spans.map((span) => textOf(info, span));
  const short = `{"name":${name ?? '""'},"version":${version ?? '""'}}`;
  return short.length <= MAX_INFO_LENGTH ? short : undefined;
}

/**
 * Returns the `DiscoverResult` of a server with sessions, made of its `InitializeResult` (MCP 2026-07-28, server/discover). Its tasks are not
 * those of this revision.
 */
export function discoverResult(initialized: string): string {
  const [capabilities, instructions, serverInfo] = findMembers(initialized, 0, ["capabilities", "instructions", "serverInfo"]).spans;
  const isObject = capabilities !== undefined && initialized[capabilities.start] === "{";
  const declared = isObject ? textOf(initialized, capabilities) : undefined;
  return objectText([
    ["resultType", '"complete"'],
    ["supportedVersions", JSON.stringify(MODERN_PROTOCOL_VERSIONS)],
    ["capabilities", declared === undefined ? "{}" : applyEdits(declared, removeMember(declared, 0, "tasks"))],
    ["instructions", textOf(initialized, instructions)],
    ["ttlMs", "0"],
    ["cacheScope", '"private"'],
    ["_meta", serverInfo && objectText([[MetaKey.serverInfo, textOf(initialized, serverInfo)]])],
  ]);
}

/** The extension whose tasks are not those of a session (MCP 2026-07-28, extension tasks). */
const TASKS_EXTENSION = "io.modelcontextprotocol/tasks";
/** An `InitializeResult` must have one. */
const UNKNOWN_SERVER = '{"name":"unknown","version":"0"}';

/** Returns the `InitializeResult` of a server without sessions, made of its `DiscoverResult`. */
export function initializeResult(discovered: string, protocolVersion: string): string {
  const instructions = textOf(discovered, findMembers(discovered, 0, ["instructions"]).spans[0]);
  const serverInfo = textOf(discovered, findPath(discovered, 0, ["_meta", MetaKey.serverInfo]));
  return objectText([
    ["protocolVersion", JSON.stringify(protocolVersion)],
    ["capabilities", capabilitiesOf(discovered)],
    ["serverInfo", isImplementation(serverInfo) ? serverInfo : UNKNOWN_SERVER],
    ["instructions", instructions?.startsWith('"') === true ? instructions : undefined],
  ]);
}

/** Returns the JSON text of the capabilities, without the tasks of the new revision. */
export function capabilitiesOf(discovered: string): string {
  const text = textOf(discovered, findMembers(discovered, 0, ["capabilities"]).spans[0]);
  if (text?.startsWith("{") !== true) return "{}";
  const extensions = findPath(text, 0, ["extensions"]);
  const isObject = extensions !== undefined && text[extensions.start] === "{";
  const ofExtensions = isObject ? removeMember(text, extensions.start, TASKS_EXTENSION) : [];
  const withoutExtension = applyEdits(text, ofExtensions);
  return applyEdits(withoutExtension, removeMember(withoutExtension, 0, "tasks"));
}

/** The results with cache hints (MCP 2026-07-28, server/utilities/caching). */
const CACHEABLE_METHODS: ReadonlySet<string> = new Set([
  "tools/list",
  "prompts/list",
  "resources/list",
  "resources/templates/list",
  "resources/read",
]);

const MAX_URLS = 16;

/** The result of a server with sessions may change at any time, and is not known to be the same for all clients. */
const CACHE_HINTS: readonly (readonly [name: string, valueText: string])[] = [
  ["ttlMs", "0"],
  ["cacheScope", '"private"'],
];
const CACHE_HINT_NAMES = CACHE_HINTS.map(([name]) => name);

/** Errors that only revisions with sessions have: a resource that does not exist, and a request for a visit to a URL. */
const RESOURCE_NOT_FOUND = -32002;
const URL_REQUIRED = -32042;
const FIRST_RESERVED_CODE = -32099;
const LAST_RESERVED_CODE = -32020;

interface ResponseShape {
  readonly method: string;
  readonly serverInfo: ServerInfo;
  /** The JSON text of the resource's URI, for `resources/read`. */
  readonly uriText: string | undefined;
  /** What the client of the current request has declared. */
  readonly client: Pick<Envelope, "declared">;
}

export function serverInfoOf(initialized: string): ServerInfo {
  const info = textOf(initialized, findMembers(initialized, 0, ["serverInfo"]).spans[0]);
  const text = info?.startsWith("{") === true ? shortInfo(info) : undefined;
  const membersText = `"resultType":"complete"${text === undefined ? "" : `,"_meta":{${SERVER_INFO_NAME}:${text}}`}`;
  return { text, membersText };
}

/**
 * Returns the response of a server with sessions as a stateless client gets it. A result gets its type, the server's name and, for lists and
 * resources, cache hints. Error codes that have another meaning now are replaced (MCP 2026-07-28, basic).
 *
 * @param found the result of the response; undefined for an error.
 */
function responseToModernClient(body: string, found: FoundResult | undefined, shape: ResponseShape): string {
  if (found === undefined) {
    const error = findMembers(body, 0, ["error"]).spans[0];
    return error === undefined ? body : (urlQuestions(body, error, shape) ?? applyEdits(body, errorEdits(body, error, shape)));
  }
  const { text, result, resultType, meta } = found;
  if (text[result.start] !== "{") return body;
  const { method, serverInfo } = shape;
  const isCacheable = CACHEABLE_METHODS.has(method);
  if (resultType === undefined && meta === undefined && !isCacheable) {
    return applyEdits(text, [...found.edits, firstMembers(text, result.start, serverInfo.membersText)]);
  }
  const members: (readonly [name: string, valueText: string])[] = [["resultType", '"complete"']];
  const present: (Span | undefined)[] = [resultType];
  const edits: Edit[] = [...found.edits];
  if (serverInfo.text !== undefined && meta !== undefined && text[meta.start] === "{") {
    edits.push(...setMembers(text, meta.start, [[MetaKey.serverInfo, serverInfo.text]]));
  } else if (serverInfo.text !== undefined) {
    members.push(["_meta", `{${SERVER_INFO_NAME}:${serverInfo.text}}`]);
    present.push(meta);
  }
  if (isCacheable) {
    members.push(...CACHE_HINTS);
    present.push(...findMembers(text, result.start, CACHE_HINT_NAMES).spans);
  }
  if (method === "tools/list") edits.push(...toolEdits(text, result.start));
  return applyEdits(text, [...setMembers(text, result.start, members, present), ...edits]);
}

/**
 * Returns the edits that remove the tools that run only as tasks, and from the other tools what is about tasks: a client without a session
 * cannot use the tasks of a server with sessions (MCP 2025-11-25, basic/utilities/tasks).
 */
function toolEdits(body: string, resultAt: number): Edit[] {
  const tools = findMembers(body, resultAt, ["tools"]).spans[0];
  if (tools === undefined || body[tools.start] !== "[" || !body.includes('"taskSupport"')) return [];
  const items = findElements(body, tools.start).map(({ start, end }) => ({ start, end, isKept: taskSupport(body, start) !== "required" }));
  const kept = items.filter(({ start, isKept }) => isKept && body[start] === "{");
  return [...removeItems(items), ...kept.flatMap(({ start }) => removeMember(body, start, "execution"))];
}

function taskSupport(body: string, start: number): unknown {
  const span = findPath(body, start, ["execution", "taskSupport"]);
  return span === undefined ? undefined : readValue(body, span);
}

function errorEdits(text: string, error: Span, { uriText, client }: ResponseShape): Edit[] {
  const [codeSpan] = findMembers(text, error.start, ["code"]).spans;
  const code = codeSpan === undefined ? undefined : readValue(text, codeSpan);
  if (codeSpan === undefined || typeof code !== "number") return [];
  if (code === RESOURCE_NOT_FOUND) {
    const data = uriText === undefined ? [] : ([["data", `{"uri":${uriText}}`]] as const);
    return setMembers(text, error.start, [["code", String(JsonRpcErrorCode.InvalidParams)], ...data]);
  }
  if (code === URL_REQUIRED && !isSubset(AskKind.url, client.declared)) {
    const data = '{"requiredCapabilities":{"elicitation":{"url":{}}}}';
    return setMembers(text, error.start, [
      ["code", String(JsonRpcErrorCode.MissingCapability)],
      ["data", data],
    ]);
  }
  if (code < FIRST_RESERVED_CODE || code > LAST_RESERVED_CODE) return [];
  const original = text.slice(error.start, error.end);
  return setMembers(text, error.start, [
    ["code", String(JsonRpcErrorCode.InternalError)],
    ["data", `{"original":${original}}`],
  ]);
}

/**
 * Returns the response that asks the client to send its user to the URLs of an error (MCP 2025-11-25, client/elicitation, URL mode). The
 * client repeats the request afterwards. Returns undefined for any other error.
 */
function urlQuestions(body: string, error: Span, { client, method, serverInfo }: ResponseShape): string | undefined {
  if (!isSubset(AskKind.url, client.declared) || !ASKING_METHODS.has(method)) return undefined;
  const [code, data] = findMembers(body, error.start, ["code", "data"]).spans;
  if (code === undefined || readValue(body, code) !== URL_REQUIRED || data === undefined) return undefined;
  const list = findPath(body, data.start, ["elicitations"]);
  const id = findMembers(body, 0, ["id"]).spans[0];
  if (list === undefined || body[list.start] !== "[" || id === undefined) return undefined;
  const questions = findElements(body, list.start, MAX_URLS).map(({ start, end }, index) => {
    const params = body.slice(start, end);
    const edited = params.startsWith("{") ? applyEdits(params, removeMember(params, 0, "elicitationId")) : "{}";
    return `"url-${index + 1}":{"method":"elicitation/create","params":${edited}}`;
  });
  if (questions.length === 0) return undefined;
  return `{"jsonrpc":"2.0","id":${body.slice(id.start, id.end)},"result":${inputRequired(questions, serverInfo)}}`;
}

/** Returns what changes the response of a server with sessions for the client of a request without one. */
export function transformToModernClient(
  request: RequestMessage,
  client: Pick<Envelope, "declared">,
  serverInfo: ServerInfo,
): (text: string, idText: string, response?: ResponseMessage) => string {
  const shape = { method: request.method, serverInfo, uriText: request.outline.copyAt(Slot.uri), client };
  return (text, idText, response) => responseToModernClient(text, findResult(text, idText, response), shape);
}

/** Returns the task that a result begins (MCP 2026-07-28, extension io.modelcontextprotocol/tasks); undefined if it begins none. */
export function createdTask({ text, result, resultType }: FoundResult): string | undefined {
  if (stringOf(text, resultType) !== "task") return undefined;
  return stringOf(text, findPath(text, result.start, ["taskId"]) ?? findPath(text, result.start, ["task", "taskId"]));
}

const UNKNOWN_CLIENT = '{"name":"unknown","version":"0"}';
/** The level in place of one that a client has put into its request without `logging/setLevel`. Hardly any message has it. */
const QUIET_LEVEL = "emergency";

/** The members that each request of a session has for a server without sessions (MCP 2026-07-28, basic, per-request protocol fields). */
export class SessionEnvelope {
  /** The questions that the client can answer. */
  readonly declared: AskKinds;
  readonly #members: readonly (readonly [name: string, valueText: string])[];

  /** @param initialize that of the session. */
  constructor({ text, outline }: RequestMessage) {
    const params = outline.span(Slot.params);
    const info = params === undefined ? undefined : clientInfoText(text, params.start);
    const capabilities = params === undefined ? undefined : findPath(text, params.start, ["capabilities"]);
    this.declared = capabilities === undefined || text[capabilities.start] !== "{" ? 0 : declaredKinds(text, capabilities.start);
    this.#members = [
      [MetaKey.protocolVersion, JSON.stringify(NEWEST_MODERN_PROTOCOL_VERSION)],
      [MetaKey.clientCapabilities, JSON.stringify(capabilitiesFor(this.declared))],
      [MetaKey.clientInfo, info ?? UNKNOWN_CLIENT],
    ];
  }

  /** Returns the log level of a request. @param level that of `logging/setLevel`. */
  static levelOf({ text, outline }: RequestMessage, level: string | undefined): string | undefined {
    const meta = outline.span(Slot.meta);
    if (level !== undefined || meta === undefined) return level;
    return findMembers(text, meta.start, [MetaKey.logLevel]).spans[0] === undefined ? undefined : QUIET_LEVEL;
  }

  /** True if the client has put one of these members into its request twice. */
  static isAmbiguous({ text, outline }: RequestMessage): boolean {
    const meta = outline.span(Slot.meta);
    return meta !== undefined && findMembers(text, meta.start, Object.values(MetaKey)).duplicate !== undefined;
  }

  /**
   * Returns a request with these members. Those of the client are overwritten.
   *
   * @param level that of `levelOf`.
   * @param params the JSON text of more members of its params; empty for none.
   */
  addTo(request: RequestMessage, level: string | undefined, params = ""): RequestMessage {
    const { text, outline } = request;
    const meta = outline.span(Slot.meta);
    const members = level === undefined ? this.#members : [...this.#members, [MetaKey.logLevel, JSON.stringify(level)] as const];
    if (meta !== undefined) return { ...request, edits: [...paramsEdits(request, params), ...setMembers(text, meta.start, members)] };
    return { ...request, edits: paramsEdits(request, `"_meta":${objectText(members)}${params === "" ? "" : `,${params}`}`) };
  }
}

/** Returns the edit that puts members first in the params. @param members their JSON text; empty for none. */
function paramsEdits(request: RequestMessage, members: string): Edit[] {
  const edit = members === "" ? undefined : firstOfParams(request, members);
  return edit === undefined ? [] : [edit];
}

/** Returns the JSON text of the client's name and version; undefined if it has none. The whole `initialize` is not kept for it. */
function clientInfoText(text: string, params: number): string | undefined {
  const info = textOf(text, findPath(text, params, ["clientInfo"]));
  const short = isImplementation(info) ? shortInfo(info) : undefined;
  return short === undefined ? undefined : copied(short);
}

/** True if it has a name and a version, as clients and servers expect. */
function isImplementation(text: string | undefined): text is string {
  return (
    text?.startsWith("{") === true &&
    findMembers(text, 0, ["name", "version"]).spans.every((span) => span !== undefined && text[span.start] === '"')
  );
}

/** The members of results that clients of sessions do not know (MCP 2026-07-28, key changes). */
const NEW_MEMBERS: ReadonlySet<string> = new Set(["resultType", "ttlMs", "cacheScope"]);
const WRAPPER_START = '{"result":';
/** The types that no result of a session has. A result that asks the client is not a response, if its request may ask. */
const OTHER_TYPES: ReadonlySet<string | undefined> = new Set(["task", "input_required"]);
const OBJECT_TYPE = '"object"';

/**
 * Returns a response of a server without sessions as a client of a session reads it.
 *
 * @param response the server's message, if the body differs from it in the id only.
 */
export function responseForSession(body: string, idText: string, method: string, response?: ResponseMessage): string | SidecarError {
  const found = findResult(body, idText, response);
  if (found === undefined || found.text[found.result.start] !== "{") return body;
  const error = checkSessionType(found) ?? checkResultType(found);
  if (error !== undefined) return error;
  const { text } = found;
  const { start } = found.result;
  const ofResult = removeMetaKey(text, start, found.meta, MetaKey.serverInfo, NEW_MEMBERS);
  const ofMethod = method === "tools/call" ? structuredEdits(text, start) : method === "tools/list" ? outputSchemaEdits(text, start) : [];
  return ofResult.length + ofMethod.length === 0 ? body : applyEdits(text, found.edits.concat(ofResult, ofMethod));
}

/** Returns the error for a result of the new revision that a session cannot have. */
function checkSessionType({ text, resultType: span }: FoundResult): SidecarError | undefined {
  const type = stringOf(text, span);
  if (!OTHER_TYPES.has(type)) return undefined;
  const message = `The MCP server answered with a result of the type ${JSON.stringify(type)}, which this request of a session cannot have. The request was sent and may have taken effect.`;
  return new SidecarError("UNKNOWN_RESULT_TYPE", message, { sent: true });
}

/** In a session, structured content is an object (MCP 2025-11-25, schema, CallToolResult). Any other value becomes a member of one. */
function structuredEdits(text: string, result: number): Edit[] {
  const span = findMembers(text, result, ["structuredContent"]).spans[0];
  if (span === undefined || text[span.start] === "{") return [];
  return [{ ...span, text: `${WRAPPER_START}${text.slice(span.start, span.end)}}` }];
}

/** In a session, the schema of structured content is that of an object. Any other schema would not describe the wrapped value. */
function outputSchemaEdits(text: string, result: number): Edit[] {
  const tools = findMembers(text, result, ["tools"]).spans[0];
  const edits: Edit[] = [];
  if (tools === undefined || text[tools.start] !== "[") return edits;
  // Keeps nothing for tools that do not change, because there may be very many.
  walkElements(text, tools.start, (start) => {
    const schema = text[start] === "{" ? findMembers(text, start, ["outputSchema"]).spans[0] : undefined;
    const type = schema === undefined ? undefined : findPath(text, schema.start, ["type"]);
    const isObject = type !== undefined && text.slice(type.start, type.end) === OBJECT_TYPE;
    if (schema !== undefined && !isObject) for (const edit of removeMember(text, start, "outputSchema")) edits.push(edit);
    return skipValue(text, start);
  });
  return edits;
}
