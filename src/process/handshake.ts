import type { Context } from "../context.ts";
import { shorten } from "../json/text.ts";
import { readValue } from "../json/value.ts";
import { JsonRpcErrorCode } from "../mcp/errors.ts";
import {
  type JsonObject,
  LONG_TEXT_LENGTH,
  type Message,
  MetaKey,
  MODERN_PROTOCOL_VERSIONS,
  NEWEST_LEGACY_PROTOCOL_VERSION,
  NEWEST_MODERN_PROTOCOL_VERSION,
  outgoing,
  readMessage,
  refusesRevision,
  type RequestMessage,
  type ResponseMessage,
  Slot,
} from "../mcp/message.ts";
import { requestToServer } from "../mcp/rewrite.ts";
import type { Redact } from "../observe/redact.ts";
import { Timer } from "../timers.ts";
import type { UpstreamHandshake, UpstreamInput, UpstreamListener } from "./port.ts";

/**
 * Limits the wait for a second response, if the first is an error that does not speak of the protocol, such as a missing key. Most such
 * servers fail in any era, but those without sessions may reject `initialize` with any error.
 */
const SECOND_ATTEMPT_MS = 2000;
/** The response may still come so long after an error without an id. */
const UNADDRESSED_MS = 1000;

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
  readonly hint: string;
  readonly meta?: Readonly<Record<string, unknown>>;
}

/** @param capabilities those that all clients of the server have. */
export function initializeAttempt(clientInfo: ClientInfo, hint = "", capabilities: Readonly<Record<string, object>> = {}): Attempt {
  const params = { protocolVersion: NEWEST_LEGACY_PROTOCOL_VERSION, capabilities, clientInfo };
  return { method: INITIALIZE, request: JSON.stringify({ jsonrpc: "2.0", id: HANDSHAKE_ID, method: INITIALIZE, params }), hint };
}

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

/** A server of any era gets two attempts: the second one if it refuses the first. */
export interface HandshakeScript {
  readonly first: Attempt;
  readonly second?: Attempt;
  /** The attempt that has succeeded begins the next generation, or else the first one. */
  next?: Attempt;
  /** Follows an `initialize`. Undefined until a client has sent its own. */
  initialized: string | undefined;
}

/** The attempts of one generation. The first that succeeds gives the result; a refused second one shows the error of the first. */
export class Handshake {
  /** Rejects on an error response, or after `timeoutMs`. The caller then stops the generation. */
  readonly result: Promise<UpstreamHandshake>;
  state: "open" | "ready" | "failed";
  current: Attempt;
  /** The error of the first attempt, if a second was made. It remains the reported reason if the second gets no response. */
  refusal: Error | undefined;
  readonly #context: Context;
  readonly #script: HandshakeScript;
  readonly #generation: number;
  readonly #timeoutMs: number;
  readonly #input: Pick<UpstreamInput, "send">;
  readonly #onRefused: UpstreamListener["onRefused"];
  readonly #ended: PromiseWithResolvers<UpstreamHandshake>;
  readonly #deadline: Timer;
  /** An error without an id counts as the response when this ends. */
  #unaddressed: Timer | undefined;

  constructor(
    context: Context,
    script: HandshakeScript,
    generation: number,
    timeoutMs: number,
    input: Pick<UpstreamInput, "send">,
    onRefused: UpstreamListener["onRefused"],
  ) {
    [this.#context, this.#script, this.#generation, this.#timeoutMs] = [context, script, generation, timeoutMs];
    [this.#input, this.#onRefused, this.state] = [input, onRefused, "open"];
    this.#ended = Promise.withResolvers();
    this.result = this.#ended.promise;
    this.current = script.next ?? script.first;
    script.next = script.first;
    this.#deadline = new Timer(context, () =>
      this.end(this.refusal ?? new HandshakeError("handshake-timeout", `no response to ${this.current.method} within ${timeoutMs} ms`)),
    );
    this.#deadline.set(context.nowMs() + timeoutMs);
    input.send(outgoing(this.current.request));
  }

  /** To be called while the handshake is open. @returns false for a message that is not part of it. */
  take(message: Message): boolean {
    if (message.kind === "notification") return false;
    // It may be about something else: then there is another response in a moment.
    if (message.kind === "response" && message.id === undefined) {
      if (this.#unaddressed !== undefined) return true;
      this.#unaddressed = new Timer(this.#context, () => this.#onAnswer(message));
      this.#unaddressed.set(this.#context.nowMs() + UNADDRESSED_MS);
    }
    // A program such as `cat` echoes the request.
    else if (message.id === HANDSHAKE_ID && (message.kind === "response" || HANDSHAKE_METHODS.has(message.method))) this.#onAnswer(message);
    else return false;
    return true;
  }

  end(result: UpstreamHandshake | Error): void {
    if (this.state !== "open") return;
    this.#deadline.clear();
    this.#unaddressed?.clear();
    this.state = result instanceof Error ? "failed" : "ready";
    if (result instanceof Error) return this.#ended.reject(result);
    const { initialized } = this.#script;
    this.#script.next = this.current;
    if (result.era === "legacy" && initialized !== undefined) this.#input.send(outgoing(initialized));
    this.#ended.resolve(result);
  }

  #onAnswer(response: RequestMessage | ResponseMessage): void {
    if (this.state !== "open") return;
    const { secrets, nowMs } = this.#context;
    const refusal = response.kind === "response" && response.isError ? masked(response, secrets.redactJson) : undefined;
    try {
      this.end(readHandshake(refusal ?? response, this.#generation, this.current));
    } catch (error) {
      const { first, second } = this.#script;
      const other = this.current === first ? second : first;
      if (refusal === undefined || other === undefined || this.refusal !== undefined) {
        // The first error shows the cause.
        this.end(this.refusal ?? (error as Error));
        if (refusal !== undefined) this.#onRefused(refusal);
        return;
      }
      this.refusal = error as Error;
      this.current = other;
      this.#unaddressed?.clear();
      this.#unaddressed = undefined;
      if (!refusesRevision(refusal)) this.#deadline.set(nowMs() + Math.min(this.#timeoutMs, SECOND_ATTEMPT_MS));
      this.#input.send(outgoing(other.request));
    }
  }
}

/** Secrets are masked, because clients may read it. */
function masked({ text, id }: ResponseMessage, redactJson: Redact): ResponseMessage {
  const message = `The MCP server answered the handshake with an error of ${text.length} characters, which cannot be forwarded`;
  const generic = JSON.stringify({ jsonrpc: "2.0", id: id ?? null, error: { code: JsonRpcErrorCode.InternalError, message } });
  const read = readMessage(text.length > LONG_TEXT_LENGTH ? generic : redactJson(text));
  // A secret may be part of the envelope itself.
  return read.kind === "response" && read.isError ? read : (readMessage(generic) as ResponseMessage);
}

/**
 * Reads the response to an attempt (MCP 2025-11-25, basic/lifecycle; MCP 2026-07-28, server/discover).
 *
 * @throws HandshakeError for an echo, an error, or anything but a result of this method.
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
