import { shorten } from "../json/text.ts";
import { readValue } from "../json/value.ts";
import {
  type JsonObject,
  type Message,
  MetaKey,
  MODERN_PROTOCOL_VERSIONS,
  NEWEST_LEGACY_PROTOCOL_VERSION,
  NEWEST_MODERN_PROTOCOL_VERSION,
  refusesRevision,
  type RequestMessage,
  type ResponseMessage,
  Slot,
} from "../mcp/message.ts";
import { requestToServer } from "../mcp/rewrite.ts";
import type { UpstreamHandshake } from "./port.ts";

/** In UTF-16 units. The result is kept and sent to each client. */
const MAX_RESULT_LENGTH = 1024 * 1024;
const MAX_ERROR_LENGTH = 500;

/** Forwarded requests have positive ids. */
export const HANDSHAKE_ID = 0;
export const INITIALIZED = '{"jsonrpc":"2.0","method":"notifications/initialized"}';
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

export interface Attempt {
  readonly method: typeof INITIALIZE | typeof DISCOVER;
  readonly request: string;
  /** Added to the error of a server that supports other revisions only, or does not know the method. */
  readonly hint: string;
  /** Of each request to a server without sessions. */
  readonly meta?: Readonly<Record<string, unknown>>;
}

/** The sidecar's own `initialize`, with capabilities that all clients of the server have. */
export function initializeAttempt(clientInfo: ClientInfo, hint = "", capabilities: Readonly<Record<string, object>> = {}): Attempt {
  const params = { protocolVersion: NEWEST_LEGACY_PROTOCOL_VERSION, capabilities, clientInfo };
  return { method: INITIALIZE, request: JSON.stringify({ jsonrpc: "2.0", id: HANDSHAKE_ID, method: INITIALIZE, params }), hint };
}

/** That of a private server's client, unchanged except for the id. */
export function clientAttempt(initialize: RequestMessage): Attempt {
  return { method: INITIALIZE, request: requestToServer(initialize, HANDSHAKE_ID), hint: "" };
}

/** MCP 2026-07-28, server/discover. */
export function discoverAttempt(clientInfo: ClientInfo, hint = ""): Attempt {
  const meta = {
    [MetaKey.protocolVersion]: NEWEST_MODERN_PROTOCOL_VERSION,
    [MetaKey.clientCapabilities]: {},
    [MetaKey.clientInfo]: clientInfo,
  };
  const request = JSON.stringify({ jsonrpc: "2.0", id: HANDSHAKE_ID, method: DISCOVER, params: { _meta: meta } });
  return { method: DISCOVER, request, hint, meta };
}

/** Begins each generation. A server of any era gets two attempts: the second one if it refuses the first. */
export class Handshake {
  readonly #first: Attempt;
  readonly #second: Attempt | undefined;
  current: Attempt;
  /** The attempt that has succeeded begins the next generation, or else the first one. */
  #next: Attempt;
  /** The error of the first attempt, while there is another one. It stays the reason if that has no response. */
  refusal: HandshakeError | undefined;
  /** Follows an `initialize`. Undefined until a client has sent its own. */
  initialized: string | undefined = INITIALIZED;

  constructor(first: Attempt, second?: Attempt) {
    this.#first = this.current = this.#next = first;
    this.#second = second;
  }

  /** @returns the first request of a generation. */
  begin(): string {
    this.refusal = undefined;
    this.current = this.#next;
    this.#next = this.#first;
    return this.current.request;
  }

  /**
   * @param message the response or echo, with secrets masked. @returns the handshake, or the next request. @throws HandshakeError with a
   * message for the operator.
   */
  read(message: RequestMessage | ResponseMessage, generation: number): UpstreamHandshake | string {
    try {
      const handshake = readHandshake(message, generation, this.current);
      this.#next = this.current;
      this.refusal = undefined;
      return handshake;
    } catch (error) {
      const other = this.current === this.#first ? this.#second : this.#first;
      const mayTryOther = this.refusal !== undefined || (message.kind === "response" && message.isError);
      if (!(error instanceof HandshakeError) || other === undefined || !mayTryOther) throw error;
      this.current = other;
      // The first error shows the cause.
      if (this.refusal !== undefined) throw this.refusal;
      this.refusal = error;
      return other.request;
    }
  }
}

export function isHandshakeResponse(message: Message): message is RequestMessage | ResponseMessage {
  // A program such as `cat` echoes the request.
  const isEcho = message.kind === "request" && HANDSHAKE_METHODS.has(message.method);
  return (message.kind === "response" || isEcho) && message.id === HANDSHAKE_ID;
}

/**
 * Reads the response to an attempt (MCP 2025-11-25, basic/lifecycle; MCP 2026-07-28, server/discover). @throws HandshakeError for an echo,
 * an error, or anything but a result of this method.
 */
export function readHandshake(
  message: RequestMessage | ResponseMessage,
  generation: number,
  { method, hint, meta }: Attempt,
): UpstreamHandshake {
  if (message.kind === "request") throw refused("the command echoes its input: it is not an MCP server");
  const { outline, isError } = message;
  if (isError) {
    const error = shorten(outline.textAt(Slot.error) ?? "", MAX_ERROR_LENGTH);
    throw refused(`the MCP server answered ${method} with an error: ${error}${refusesRevision(message) ? hint : ""}`);
  }
  const resultText = outline.firstAt(Slot.result) === "{" ? outline.copyAt(Slot.result) : undefined;
  if (resultText === undefined) throw refused(`the MCP server answered ${method} without a result object`);
  if (resultText.length > MAX_RESULT_LENGTH)
    throw refused(`the MCP server's response to ${method} has over ${MAX_RESULT_LENGTH} characters`);
  const { protocolVersion, supportedVersions } = readValue(resultText) as JsonObject;
  if (method === INITIALIZE) {
    if (typeof protocolVersion !== "string") throw refused("the MCP server answered initialize without a protocolVersion");
    return { generation, era: "legacy", resultText, protocolVersion, pingMethod: "ping", requestMeta: undefined };
  }
  const revision = MODERN_PROTOCOL_VERSIONS.find((each) => Array.isArray(supportedVersions) && supportedVersions.includes(each));
  if (revision === undefined) throw refused(`the MCP server answered ${DISCOVER} without a supported revision`);
  const requestMeta = { ...meta, [MetaKey.protocolVersion]: revision };
  return { generation, era: "modern", resultText, protocolVersion: revision, pingMethod: DISCOVER, requestMeta };
}

function refused(message: string): HandshakeError {
  return new HandshakeError("handshake-refused", message);
}
