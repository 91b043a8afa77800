import { applyEdits, type Edit, firstMembers, removeItems, removeMember, removeMembers, setMembers } from "../json/edit.ts";
import { findElements, findMembers, findPath, textOf } from "../json/find.ts";
import type { Span } from "../json/text.ts";
import { readValue } from "../json/value.ts";
import { AskKind, isSubset } from "../mcp/capabilities.ts";
import { JsonRpcErrorCode } from "../mcp/errors.ts";
import { MetaKey, type RequestMessage, Slot } from "../mcp/message.ts";
import { type Envelope, LastText } from "./request-check.ts";
import { findResult, type FoundResult, inputRequired, SERVER_INFO_NAME, type ServerInfo } from "../mcp/result.ts";
import { MODERN_PROTOCOL_VERSIONS } from "../mcp/versions.ts";
import type { Transform } from "../session/reply.ts";
import { ASKING_METHODS } from "./asks.ts";

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
export function shortInfo(info: string): string | undefined {
  if (info.length <= MAX_INFO_LENGTH) return info;
  const [name, version] = findMembers(info, 0, ["name", "version"]).spans.map((span) => textOf(info, span));
  const short = `{"name":${name ?? '""'},"version":${version ?? '""'}}`;
  return short.length <= MAX_INFO_LENGTH ? short : undefined;
}

/**
 * Returns the `DiscoverResult` of a server with sessions, made of its `InitializeResult` (MCP 2026-07-28, server/discover). Its tasks are not
 * those of this revision.
 */
export function discoverResult(initializeResult: string): string {
  const [capabilities, instructions, serverInfo] = findMembers(initializeResult, 0, ["capabilities", "instructions", "serverInfo"]).spans;
  const isObject = capabilities !== undefined && initializeResult[capabilities.start] === "{";
  const declared = isObject ? textOf(initializeResult, capabilities) : undefined;
  const members: (readonly [name: string, valueText: string | undefined])[] = [
    ["resultType", '"complete"'],
    ["supportedVersions", JSON.stringify(MODERN_PROTOCOL_VERSIONS)],
    ["capabilities", declared === undefined ? "{}" : applyEdits(declared, removeMember(declared, 0, "tasks"))],
    ["instructions", textOf(initializeResult, instructions)],
    ["ttlMs", "0"],
    ["cacheScope", '"private"'],
    ["_meta", serverInfo === undefined ? undefined : `{${JSON.stringify(MetaKey.serverInfo)}:${textOf(initializeResult, serverInfo)}}`],
  ];
  return `{${members.flatMap(([name, valueText]) => (valueText === undefined ? [] : [`${JSON.stringify(name)}:${valueText}`])).join(",")}}`;
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
  /** True if the client can send its user to a URL. */
  readonly declaresUrl: boolean;
}

export function serverInfoOf(initializeResult: string): ServerInfo {
  const info = textOf(initializeResult, findMembers(initializeResult, 0, ["serverInfo"]).spans[0]);
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

function errorEdits(text: string, error: Span, { uriText, declaresUrl }: ResponseShape): Edit[] {
  const [codeSpan] = findMembers(text, error.start, ["code"]).spans;
  const code = codeSpan === undefined ? undefined : readValue(text, codeSpan);
  if (codeSpan === undefined || typeof code !== "number") return [];
  if (code === RESOURCE_NOT_FOUND) {
    const data = uriText === undefined ? [] : ([["data", `{"uri":${uriText}}`]] as const);
    return setMembers(text, error.start, [["code", String(JsonRpcErrorCode.InvalidParams)], ...data]);
  }
  if (code === URL_REQUIRED && !declaresUrl) {
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
function urlQuestions(body: string, error: Span, { declaresUrl, method, serverInfo }: ResponseShape): string | undefined {
  if (!declaresUrl || !ASKING_METHODS.has(method)) return undefined;
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
export function transformToModernClient(request: RequestMessage, { declared }: Envelope, serverInfo: ServerInfo): Transform {
  const declaresUrl = isSubset(AskKind.url, declared);
  const shape = { method: request.method, serverInfo, uriText: request.outline.copyAt(Slot.uri), declaresUrl };
  return (text, idText, response) => responseToModernClient(text, findResult(text, idText, response), shape);
}
