import { findMembers } from "../json/find.ts";
import { shorten } from "../json/text.ts";
import { readValue } from "../json/value.ts";
import { type Message, MetaKey, type RequestMessage, type ResponseMessage, Slot } from "../mcp/message.ts";
import { requestToServer } from "../mcp/rewrite.ts";
import {
  MODERN_PROTOCOL_VERSIONS,
  NEWEST_LEGACY_PROTOCOL_VERSION,
  NEWEST_MODERN_PROTOCOL_VERSION,
  refusesRevision,
} from "../mcp/versions.ts";
import type { ServerEra, UpstreamHandshake } from "./port.ts";

/** The greatest length of a result, in UTF-16 units. The result is kept and sent to each client. */
const MAX_RESULT_LENGTH = 1024 * 1024;
const MAX_ERROR_LENGTH = 500;

/** The id of the handshake's requests. Forwarded requests have positive ids. */
export const HANDSHAKE_ID = 0;
const INITIALIZE = "initialize";
const DISCOVER = "server/discover";
const HANDSHAKE_METHODS: ReadonlySet<string> = new Set([INITIALIZE, DISCOVER]);

export interface ClientInfo {
  readonly name: string;
  readonly version: string;
}

/** A handshake that failed although the server did not exit. */
export class HandshakeError extends Error {
  override readonly name = "HandshakeError";
  readonly kind: "handshake-refused" | "handshake-timeout";

  constructor(kind: HandshakeError["kind"], message: string) {
    super(message);
    this.kind = kind;
  }
}

/** The strategy of a handshake, which begins each generation. All its requests have the id 0. */
export interface HandshakeScript {
  /** Begins the handshake of a generation. @returns the first request. */
  begin(): string;
  /** The method of the request that the server has not answered yet. */
  readonly method: string;
  /** The error that an earlier request of this handshake got, if there is another attempt. It stays the reason if that has no response. */
  readonly refusal?: HandshakeError | undefined;
  /**
   * Reads the server's response.
   *
   * @param message the response or echo, with secrets masked.
   * @returns the handshake, or the next request.
   * @throws HandshakeError with a message for the operator.
   */
  read(message: RequestMessage | ResponseMessage, generation: number): UpstreamHandshake | string;
  /** Returns undefined if it is not known yet, or if this handshake has none. The handshake does not wait for it. */
  initializedNotification(): string | undefined;
}

/** The sidecar's own `initialize`. It declares only client capabilities that all clients of the server have. */
export class SidecarHandshake implements HandshakeScript {
  readonly #request: string;
  readonly method = INITIALIZE;
  readonly #hint: string;

  /** @param hint added to the error of a server that supports only other revisions. */
  constructor(clientInfo: ClientInfo, hint = "", capabilities: Readonly<Record<string, object>> = {}) {
    this.#hint = hint;
    const params = { protocolVersion: NEWEST_LEGACY_PROTOCOL_VERSION, capabilities, clientInfo };
    this.#request = JSON.stringify({ jsonrpc: "2.0", id: HANDSHAKE_ID, method: "initialize", params });
  }

  begin(): string {
    return this.#request;
  }

  read(message: RequestMessage | ResponseMessage, generation: number): UpstreamHandshake {
    try {
      return readHandshake(message, generation);
    } catch (error) {
      throw withHint(error, message, this.#hint);
    }
  }

  initializedNotification(): string | undefined {
    return '{"jsonrpc":"2.0","method":"notifications/initialized"}';
  }
}

/** The handshake with a server of the revisions without sessions: a discovery (MCP 2026-07-28, server/discover). */
export class DiscoverHandshake implements HandshakeScript {
  readonly #request: string;
  readonly method = DISCOVER;
  readonly #hint: string;
  readonly #requestMeta: Readonly<Record<string, unknown>>;

  /** @param hint added to the error of a server that knows no discovery. */
  constructor(clientInfo: ClientInfo, hint = "") {
    this.#hint = hint;
    this.#requestMeta = {
      [MetaKey.protocolVersion]: NEWEST_MODERN_PROTOCOL_VERSION,
      [MetaKey.clientCapabilities]: {},
      [MetaKey.clientInfo]: clientInfo,
    };
    const params = { _meta: this.#requestMeta };
    this.#request = JSON.stringify({ jsonrpc: "2.0", id: HANDSHAKE_ID, method: DISCOVER, params });
  }

  begin(): string {
    return this.#request;
  }

  read(message: RequestMessage | ResponseMessage, generation: number): UpstreamHandshake {
    const resultText = this.#readResult(message);
    const versions = findMembers(resultText, 0, ["supportedVersions"]).spans[0];
    const supported: unknown = versions === undefined ? undefined : readValue(resultText, versions);
    const protocolVersion = MODERN_PROTOCOL_VERSIONS.find((version) => Array.isArray(supported) && supported.includes(version));
    if (protocolVersion === undefined) throw refused(`the MCP server answered ${DISCOVER} without a supported revision`);
    const requestMeta = { ...this.#requestMeta, [MetaKey.protocolVersion]: protocolVersion };
    return { generation, era: "modern", resultText, protocolVersion, pingMethod: DISCOVER, requestMeta };
  }

  initializedNotification(): undefined {
    return undefined;
  }

  #readResult(message: RequestMessage | ResponseMessage): string {
    try {
      return readResult(message, DISCOVER);
    } catch (error) {
      throw withHint(error, message, this.#hint);
    }
  }
}

/** Returns the error with a hint if the server supports other revisions only, or does not know the method. */
function withHint(error: unknown, message: RequestMessage | ResponseMessage, hint: string): unknown {
  return error instanceof HandshakeError && refusesRevision(message) ? refused(error.message + hint) : error;
}

/** True for a response of the handshake, and for its request itself if the program echoes it. */
export function isHandshakeResponse(message: Message): message is RequestMessage | ResponseMessage {
  return (message.kind === "response" || isEcho(message)) && message.id === HANDSHAKE_ID;
}

/** A program such as `cat` echoes its input. */
function isEcho(message: Message): message is RequestMessage {
  return message.kind === "request" && HANDSHAKE_METHODS.has(message.method);
}

/**
 * Reads the server's response to `initialize` (MCP 2025-11-25, basic/lifecycle).
 *
 * @param message the response or echo, with secrets masked.
 * @throws HandshakeError with a message for the operator if the response is an echo, a JSON-RPC error or not an InitializeResult.
 */
export function readHandshake(message: RequestMessage | ResponseMessage, generation: number): UpstreamHandshake {
  const resultText = readResult(message, "initialize");
  const protocolVersion = message.outline.stringAt(Slot.protocolVersion);
  if (protocolVersion === undefined) throw refused("the MCP server answered initialize without a protocolVersion");
  return { generation, era: "legacy", resultText, protocolVersion, pingMethod: "ping", requestMeta: undefined };
}

/** @returns the JSON text of the result. */
function readResult(message: RequestMessage | ResponseMessage, method: string): string {
  if (message.kind === "request") throw refused("the command echoes its input: it is not an MCP server");
  const { outline, isError } = message;
  if (isError) {
    throw refused(`the MCP server answered ${method} with an error: ${shorten(outline.textAt(Slot.error) ?? "", MAX_ERROR_LENGTH)}`);
  }
  const result = outline.span(Slot.result);
  if (result === undefined || !outline.isObject(Slot.result)) throw refused(`the MCP server answered ${method} without a result object`);
  if (result.end - result.start > MAX_RESULT_LENGTH)
    throw refused(`the MCP server's response to ${method} has over ${MAX_RESULT_LENGTH} characters`);
  return outline.copyAt(Slot.result) ?? "{}";
}

function refused(message: string): HandshakeError {
  return new HandshakeError("handshake-refused", message);
}

/** The handshake with a server of any era: `initialize`, and a discovery if the server refuses that. */
export class AnyEraHandshake implements HandshakeScript {
  readonly #initialize: SidecarHandshake;
  readonly #discover: DiscoverHandshake;
  #refusal: HandshakeError | undefined;
  #era: ServerEra = "legacy";
  /** The era of the last generation that was ready. */
  #lastEra: ServerEra = "legacy";

  constructor(clientInfo: ClientInfo) {
    this.#initialize = new SidecarHandshake(clientInfo);
    this.#discover = new DiscoverHandshake(clientInfo);
  }

  get refusal(): HandshakeError | undefined {
    return this.#refusal;
  }

  get method(): string {
    return this.#current.method;
  }

  /** Each generation begins in the era of the former one, or with `initialize` if that was never ready. */
  begin(): string {
    this.#refusal = undefined;
    this.#era = this.#lastEra;
    this.#lastEra = "legacy";
    return this.#current.begin();
  }

  read(message: RequestMessage | ResponseMessage, generation: number): UpstreamHandshake | string {
    try {
      const handshake = this.#current.read(message, generation);
      this.#lastEra = this.#era;
      this.#refusal = undefined;
      return handshake;
    } catch (error) {
      if (!(error instanceof HandshakeError) || (this.#refusal === undefined && !(message.kind === "response" && message.isError)))
        throw error;
      this.#era = this.#era === "legacy" ? "modern" : "legacy";
      // The server refuses both, or does not know the second one. The first error shows the cause.
      if (this.#refusal !== undefined) throw this.#refusal;
      this.#refusal = error;
      return this.#current.begin();
    }
  }

  initializedNotification(): string | undefined {
    return this.#current.initializedNotification();
  }

  get #current(): SidecarHandshake | DiscoverHandshake {
    return this.#era === "legacy" ? this.#initialize : this.#discover;
  }
}

/** The handshake of a client with a private server: its own messages, unchanged except for the id. */
export class ClientHandshake implements HandshakeScript {
  readonly #request: string;
  readonly method = "initialize";
  #initialized: string | undefined;

  /** @param initialize the request of the client. */
  constructor(initialize: RequestMessage) {
    this.#request = requestToServer(initialize, HANDSHAKE_ID);
  }

  begin(): string {
    return this.#request;
  }

  read(message: RequestMessage | ResponseMessage, generation: number): UpstreamHandshake {
    return readHandshake(message, generation);
  }

  /** Returns undefined until the client has sent it. */
  initializedNotification(): string | undefined {
    return this.#initialized;
  }

  /** Keeps the client's `notifications/initialized` for later generations. */
  keepInitialized(text: string): void {
    this.#initialized = text;
  }
}
