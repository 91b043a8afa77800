import { applyEdits, type Edit, removeMember, setMembers } from "../json/edit.ts";
import { findMembers, findPath, stringOf, textOf } from "../json/find.ts";
import { copied, skipValue, walkElements } from "../json/text.ts";
import { type AskKinds, capabilitiesFor, declaredKinds, readCapabilities } from "../mcp/capabilities.ts";
import { JsonRpcErrorCode, SidecarError } from "../mcp/errors.ts";
import { findOtherCase, isJsonObject, type JsonObject, MetaKey, type RequestMessage, type ResponseMessage, Slot } from "../mcp/message.ts";
import { checkResultType, findResult, type FoundResult, removeMetaKey } from "../mcp/result.ts";
import { firstOfParams } from "../mcp/rewrite.ts";
import { negotiateProtocolVersion, NEWEST_MODERN_PROTOCOL_VERSION } from "../mcp/versions.ts";
import { textMemoryBytes } from "../memory.ts";
import type { Reply } from "../session/reply.ts";
import type { Caller } from "../session/session.ts";
import { ASKING_METHODS } from "./asks.ts";
import type { InitializeRules } from "./initialize.ts";
import { shortInfo } from "./legacy-calls.ts";
import { EMPTY_RESULT, refuse, type RequestDecision, unavailable } from "./routing.ts";
import { type DesiredState, type ModernDriver } from "./desired-state.ts";

const UNKNOWN_CLIENT = '{"name":"unknown","version":"0"}';
/** The level in place of one that a client has put into its request without `logging/setLevel`. Hardly any message has it. */
const QUIET_LEVEL = "emergency";

/** The members that each request of a session has for a server without sessions (MCP 2026-07-28, basic, per-request protocol fields). */
class SessionEnvelope {
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
    const metaText = `{${members.map(([name, value]) => `${JSON.stringify(name)}:${value}`).join(",")}}`;
    return { ...request, edits: paramsEdits(request, `"_meta":${metaText}${params === "" ? "" : `,${params}`}`) };
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

/** A session's request in whose result the server may ask its client. It is kept, because the server may need it several times. */
export class RepeatableRequest {
  /** The number of results with questions so far. */
  questionRounds = 0;
  /** Called once at the end of its reply, while the client still accepts messages, if it has not disconnected. */
  onEnd: (() => void) | undefined;
  readonly #envelope: SessionEnvelope;
  readonly #request: RequestMessage;
  readonly #level: string | undefined;

  constructor(request: RequestMessage, envelope: SessionEnvelope, level: string | undefined) {
    [this.#request, this.#envelope, this.#level] = [request, envelope, level];
  }

  /** The questions that the client can answer. */
  get declared(): AskKinds {
    return this.#envelope.declared;
  }

  /** Returns the request for the server. @param params the JSON text of more members of its params. */
  with(params: string): RequestMessage {
    return this.#envelope.addTo(this.#request, this.#level, params);
  }
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
function responseForSession(body: string, idText: string, method: string, response?: ResponseMessage): string | SidecarError {
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

const ANSWER_SLOTS = { inputResponses: Slot.inputResponses, requestState: Slot.repeatedState };

/** The sessions of a server that knows none. It gets each request with an envelope, and keeps no state of a session. */
export class ModernSessions {
  /** Each is short, and counts for no memory, like the session itself. */
  readonly #sessions = new Map<Caller, SessionEnvelope>();
  readonly #state: DesiredState;
  readonly #driver: ModernDriver;
  /** Those that have not ended. */
  readonly #repeatable = new Map<Reply, RepeatableRequest>();

  constructor(state: DesiredState, driver: ModernDriver) {
    [this.#state, this.#driver] = [state, driver];
  }

  add(session: Caller, initialize: RequestMessage): void {
    this.#sessions.set(session, new SessionEnvelope(initialize));
  }

  delete(caller: Caller): void {
    this.#sessions.delete(caller);
  }

  isAskable(caller: Caller): boolean {
    return (this.#sessions.get(caller)?.declared ?? 0) !== 0;
  }

  has(caller: Caller): boolean {
    return this.#sessions.has(caller);
  }

  /** Returns the request of a reply, if the server may ask its client. */
  repeatableOf(reply: Reply): RepeatableRequest | undefined {
    return this.#repeatable.get(reply);
  }

  /** @returns the decision about a request of a session; undefined for a client without one. */
  decide(caller: Caller, request: RequestMessage, reply: Reply): RequestDecision | undefined {
    const envelope = this.#sessions.get(caller);
    if (envelope === undefined) return undefined;
    const { method, outline } = request;
    if (outline.has(Slot.inputResponses) || outline.has(Slot.repeatedState) || findOtherCase(outline, ANSWER_SLOTS) !== undefined) {
      return refuse(JsonRpcErrorCode.InvalidParams, "inputResponses and requestState are not part of a session: answer by responses");
    }
    if (SessionEnvelope.isAmbiguous(request)) return refuse(JsonRpcErrorCode.InvalidParams, "a reserved key of _meta is repeated");
    switch (method) {
      case "ping":
        return EMPTY_RESULT;
      case "logging/setLevel":
        return this.#driver.setLevel(caller, outline.stringAt(Slot.level));
      case "resources/subscribe":
        return this.#driver.subscribe(caller, outline.stringAt(Slot.uri));
      case "resources/unsubscribe":
        return this.#driver.unsubscribe(caller, outline.stringAt(Slot.uri));
      case "server/discover":
      case "subscriptions/listen":
        return refuse(JsonRpcErrorCode.MethodNotFound, `${method} is not part of a session`);
      default:
        return method.startsWith("tasks/") ? unavailable(method) : this.#carry(caller, envelope, request, reply);
    }
  }

  #carry(caller: Caller, envelope: SessionEnvelope, request: RequestMessage, reply: Reply): RequestDecision {
    const level = SessionEnvelope.levelOf(request, this.#state.levelOf(caller));
    const { method } = request;
    reply.logLevel = level;
    reply.transforms.push((text, idText, response) => responseForSession(text, idText, method, response));
    if (ASKING_METHODS.has(method)) {
      const repeatable = new RepeatableRequest(request, envelope, level);
      const kept = caller.memory.hold("requests", textMemoryBytes(request.text));
      this.#repeatable.set(reply, repeatable);
      reply.onEnd = () => {
        this.#repeatable.delete(reply);
        kept.release();
        repeatable.onEnd?.();
      };
    }
    return { kind: "carry", request: envelope.addTo(request, level) };
  }
}

/** The extension whose tasks are not those of a session (MCP 2026-07-28, extension tasks). */
const TASKS_EXTENSION = "io.modelcontextprotocol/tasks";
/** An `InitializeResult` must have one. */
const UNKNOWN_SERVER = '{"name":"unknown","version":"0"}';

/** A client's `initialize` is answered from the discovery of a server without sessions (MCP 2026-07-28, basic/versioning). */
export const DISCOVERED_INITIALIZE: InitializeRules = {
  isForwarded: false,
  answer: ({ resultText }, request) => {
    const protocolVersion = negotiateProtocolVersion(request.outline.stringAt(Slot.requestedVersion));
    return { protocolVersion, resultText: initializeResult(resultText, protocolVersion) };
  },
  // The sidecar supports every revision with sessions.
  capabilities: ({ resultText }) => ({
    protocolVersion: undefined,
    declared: readCapabilities(`{"capabilities":${capabilitiesOf(resultText)}}`),
  }),
};

/** Returns the `InitializeResult` of a server without sessions, made of its `DiscoverResult`. */
function initializeResult(discoverResult: string, protocolVersion: string): string {
  const [instructions] = findMembers(discoverResult, 0, ["instructions"]).spans;
  const serverInfo = textOf(discoverResult, findPath(discoverResult, 0, ["_meta", MetaKey.serverInfo]));
  const members = [
    `"protocolVersion":${JSON.stringify(protocolVersion)}`,
    `"capabilities":${capabilitiesOf(discoverResult)}`,
    `"serverInfo":${isImplementation(serverInfo) ? serverInfo : UNKNOWN_SERVER}`,
    ...(instructions === undefined || discoverResult[instructions.start] !== '"'
      ? []
      : [`"instructions":${textOf(discoverResult, instructions)}`]),
  ];
  return `{${members.join(",")}}`;
}

/** Returns the JSON text of the capabilities, without the tasks of the new revision. */
function capabilitiesOf(discoverResult: string): string {
  const text = textOf(discoverResult, findMembers(discoverResult, 0, ["capabilities"]).spans[0]);
  if (text?.startsWith("{") !== true) return "{}";
  const extensions = findPath(text, 0, ["extensions"]);
  const isObject = extensions !== undefined && text[extensions.start] === "{";
  const ofExtensions = isObject ? removeMember(text, extensions.start, TASKS_EXTENSION) : [];
  const withoutExtension = applyEdits(text, ofExtensions);
  return applyEdits(withoutExtension, removeMember(withoutExtension, 0, "tasks"));
}
