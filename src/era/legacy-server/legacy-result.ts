import { applyEdits, type Edit, firstMembers, removeItems, removeMember, setFoundMembers, setMembers } from "../../json/edit.ts";
import { findElements, findMembers, findPath } from "../../json/find.ts";
import type { Span } from "../../json/strings.ts";
import { readValue } from "../../json/values.ts";
import { JsonRpcErrorCode } from "../../protocol/error-codes.ts";
import { MetaKey } from "../../protocol/meta-key.ts";
import type { FoundResult } from "../results/found-result.ts";
import { inputRequired, SERVER_INFO_NAME, type ServerInfo } from "../results/server-info.ts";
import { shortServerInfoText } from "./discovery.ts";

/** The results with cache hints (MCP 2026-07-28, server/utilities/caching). */
const CACHEABLE_METHODS: ReadonlySet<string> = new Set([
  "tools/list",
  "prompts/list",
  "resources/list",
  "resources/templates/list",
  "resources/read",
]);

/** The requests whose result may ask the client for input (MCP 2026-07-28, basic/utilities/mrtr). */
const QUESTION_METHODS: ReadonlySet<string> = new Set(["tools/call", "prompts/get", "resources/read"]);
const MAX_URLS = 16;

export function mayAsk(method: string): boolean {
  return QUESTION_METHODS.has(method);
}

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

interface ErrorShape {
  /** The JSON text of the resource's URI, for `resources/read`. */
  readonly uriText: string | undefined;
  /** True if the client can send its user to a URL. */
  readonly declaresUrl: boolean;
}

export interface ResultShape extends ErrorShape {
  readonly method: string;
  readonly serverInfo: ServerInfo;
}

const COMMA_BYTES = 1;

export function serverInfoOf(initializeResult: string): ServerInfo {
  const text = shortServerInfoText(initializeResult);
  const membersText = `"resultType":"complete"${text === undefined ? "" : `,"_meta":{${SERVER_INFO_NAME}:${text}}`}`;
  return { text, membersText, addedBytes: Buffer.byteLength(membersText) + COMMA_BYTES };
}

/**
 * Returns the response of a server with sessions as a stateless client gets it. A result gets its type, the server's name and, for lists and
 * resources, cache hints. Error codes that have another meaning now are replaced (MCP 2026-07-28, basic).
 *
 * @param found the result of the response; undefined for an error.
 */
export function responseToModernClient(body: string, found: FoundResult | undefined, shape: ResultShape): string {
  if (found === undefined) return errorToModernClient(body, shape);
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
  return applyEdits(text, [...setFoundMembers(text, result.start, members, present), ...edits]);
}

function errorToModernClient(body: string, shape: ResultShape): string {
  const error = findMembers(body, 0, ["error"]).spans[0];
  return error === undefined ? body : (urlQuestions(body, error, shape) ?? applyEdits(body, errorEdits(body, error, shape)));
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

function errorEdits(text: string, error: Span, { uriText, declaresUrl }: ErrorShape): Edit[] {
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
function urlQuestions(body: string, error: Span, { declaresUrl, method, serverInfo }: ResultShape): string | undefined {
  if (!declaresUrl || !QUESTION_METHODS.has(method)) return undefined;
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
